"""Whether operations take as long as `weft predict` says. The gate is wider than that of `tools/numbers 4`: a busy machine
does not always keep up."""

GATE = 0.25


def check(test, predictions):
    """Of `predictions` as tools/numbers gives them."""
    for name, size, predicted, took in predictions:
        print(f"{name}, {size} B: predicted {predicted / 1e3:.1f} ms, measured {took / 1e3:.1f} ms", flush=True)
        test.assertLess(abs(predicted - took) / took, GATE, name)
