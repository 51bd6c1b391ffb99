import pytest

from pipeline.results import figure_panels


def row(method, position=0, **more):
    """A row of a view: of one scenario, model and domain, unless more says otherwise."""
    place = {"scenario": "s", "model": "m", "domain": "a", "domain_position": 0, "step": 10}
    return place | {"method": method, "method_position": position, "seeds": 1} | more


def test_hopeless_methods_do_not_stretch_the_axis_of_differences():
    rows = [row(f"m{i}", i, difference=one) for i, one in enumerate((-0.1, 0.2, 7.0), start=1)]
    (panel,) = figure_panels.difference_panels(rows)
    # The median of 0.1, 0.2 and 7 is 0.2: up to 0.4 and a margin of a tenth, down to -0.1.
    assert panel.y_limits == pytest.approx((-0.14, 0.44))


def test_losses_that_beat_no_baseline_are_shown_whole():
    simplest = {"low": 6.0, "high": 6.0, "uniform": 6.2, "unigram": 5.5, "floor": None}
    rows = [row("mix", step=step, nll=nll, **simplest) for step, nll in ((0, 7.0), (10, 6.0))]
    (panel,) = figure_panels.domain_loss_panels(rows)
    assert panel.y_limits == pytest.approx((5.88, 7.12))


def test_weights_share_a_scale_except_where_one_domain_has_all():
    weights = {"mix": 0.3, "pike": 0.5, "single": 1.0}
    rows = [row(method, weight=weight, alternates=False) for method, weight in weights.items()]
    tops = [panel.y_limits[1] for panel in figure_panels.weight_panels(rows)]
    assert tops == pytest.approx([0.55, 0.55, 1.1])


def test_gradients_leave_gaps_where_a_log_scale_has_no_place():
    rows = [
        row("pike", step=step, squared_norm_unbiased=norm, variance=4.0, noise_scale=None)
        for step, norm in ((0, 1.0), (40, -0.5))
    ]
    norms, variances, scales = figure_panels.gradient_panels(rows)
    assert list(norms.series[0].y) == [1.0, None]
    assert list(variances.series[0].y) == [4.0, 4.0]
    assert list(scales.series[0].y) == [None, None]


def test_batches_of_one_domain_each_are_dots():
    rows = [
        row("random", domain=domain, domain_position=place, step=step,
            weight=float(domain == owner), alternates=True)
        for place, domain in enumerate("ab")
        for step, owner in enumerate("bab")
    ]  # fmt: skip
    (panel,) = figure_panels.weight_panels(rows)
    assert [(line.points, line.y) for line in panel.series] == [
        (True, [None, 1.0, None]),
        (True, [1.0, None, 1.0]),
    ]
