import pytest

from pipeline import settings
from pipeline.model.transformer import initial_model
from pipeline.planning import run_estimates
from pipeline.training import step_log

SHAPE = settings.Model(layers=2, width=12, heads=2, head_width=4, vocabulary_multiple=8)


def test_flops_are_six_a_weight_and_attentions_products():
    net = initial_model(SHAPE, 16, 0)
    # A block: queries, keys, values 12 x 24, output 8 x 12, MLP 12 x 48 twice.
    block = 12 * 24 + 8 * 12 + 2 * 12 * 48
    expected = 6 * (2 * block + 16 * 12) + 12 * 2 * 8 * 10
    assert step_log.model_flops_per_token(net, SHAPE, 10) == expected
    # What a plan assumes before there is a model.
    assert run_estimates.training_flops_per_token(SHAPE, 16, 10) == expected


@pytest.mark.parametrize(
    ("name", "precision", "expected"),
    [
        ("cuda: NVIDIA H200", "bfloat16", 989e12),
        ("cuda: NVIDIA H100 80GB HBM3", "float32", 67e12),
        ("cuda: NVIDIA A100-SXM4-80GB", "bfloat16", 312e12),
        ("cuda: NVIDIA H100 PCIe", "bfloat16", None),
        ("cuda: NVIDIA H100 NVL", "bfloat16", None),
        ("cuda: NVIDIA H100 80GB HBM3 MIG 1g.10gb", "bfloat16", None),
        ("cuda: NVIDIA A100-PCIE-40GB", "bfloat16", None),
        ("cuda: NVIDIA L4", "bfloat16", None),
        ("cpu: x86_64, 1 thread", "float32", None),
    ],
)
def test_a_known_gpu_has_its_data_sheets_peak(name, precision, expected):
    assert step_log.data_sheet_flops_per_second(name, precision) == expected
