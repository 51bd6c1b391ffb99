import math

import pytest
import torch

from pipeline import settings
from pipeline.model.transformer import initialised
from pipeline.planning import resources
from pipeline.runtime import atomic_files
from pipeline.runtime.validation import validate
from pipeline.training import throughput

SHAPE = settings.Model(layers=2, width=12, heads=2, head_width=4, vocabulary_multiple=8)


def test_flops_are_six_a_weight_and_attentions_products():
    net = initialised(SHAPE, 16, 0)
    # A block: queries, keys, values 12 x 24, output 8 x 12, MLP 12 x 48 twice.
    block = 12 * 24 + 8 * 12 + 2 * 12 * 48
    expected = 6 * (2 * block + 16 * 12) + 12 * 2 * 8 * 10
    assert throughput.training_flops(net, SHAPE, 10) == expected
    # What a plan assumes before there is a model.
    assert resources.training_flops(SHAPE, 16, 10) == expected


@pytest.mark.parametrize(
    ("name", "precision", "expected"),
    [
        ("cuda: NVIDIA H200", "bfloat16", 989e12),
        ("cuda: NVIDIA H100 80GB HBM3", "float32", 67e12),
        ("cuda: NVIDIA A100-SXM4-80GB", "bfloat16", 312e12),
        ("cuda: NVIDIA H100 PCIe", "bfloat16", None),
        ("cuda: NVIDIA H100 NVL", "bfloat16", None),
        ("cuda: NVIDIA A100-PCIE-40GB", "bfloat16", None),
        ("cuda: NVIDIA L4", "bfloat16", None),
        ("cpu: x86_64, 1 thread", "float32", None),
    ],
)
def test_a_known_gpu_has_its_data_sheets_peak(name, precision, expected):
    assert throughput.known_peak(name, precision) == expected


def test_a_pace_follows_from_the_seconds(write_run, tmp_path):
    run = validate(settings.Run, atomic_files.read_json(write_run(tmp_path)), "run")
    net = initialised(run.model, 32, 0)
    meter = throughput.Meter(net, run, torch.device("cpu"))
    pace = meter.of(0.5)
    assert pace.tokens_per_second == 6 * 8 / 0.5
    assert math.isnan(pace.model_flops_utilisation)
    meter.peak = 1e6
    flops = throughput.training_flops(net, run.model, 8)
    assert meter.of(0.5).model_flops_utilisation == pytest.approx(flops * 96 / 1e6)
