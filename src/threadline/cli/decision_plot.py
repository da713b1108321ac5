"""The picture of a calibration: how often the agent was right at each confidence."""

from pathlib import Path

from threadline.decisions.reports import Calibration
from threadline.errors import Permanent

_ENDINGS = (".png", ".svg", ".pdf")


def draw(calibration: Calibration, path: Path) -> None:
    """Write the picture, as the ending of its name says.

    Raises:
        Permanent: the drawing library is not installed, or the file cannot be written.
    """
    if path.suffix.lower() not in _ENDINGS:
        raise Permanent(f"{path} must end in {', '.join(_ENDINGS[:-1])} or {_ENDINGS[-1]}.")
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise Permanent("The plot needs matplotlib: install threadline[plot], or leave --plot out.") from error
    figure = Figure(figsize=(6, 6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], linestyle="--", color="grey", label="perfect calibration")
    axes.bar(
        [each.low for each in calibration.bins],
        [each.right for each in calibration.bins],
        width=[each.high - each.low for each in calibration.bins],
        align="edge",
        alpha=0.5,
        edgecolor="black",
        label="right",
    )
    axes.plot([each.confidence for each in calibration.bins], [each.right for each in calibration.bins], "o")
    for each in calibration.bins:
        axes.annotate(str(each.count), ((each.low + each.high) / 2, each.right), ha="center", va="bottom")
    axes.set(xlim=(0, 1), ylim=(0, 1.05), xlabel="confidence", ylabel="share correct")
    axes.set_title(f"{calibration.count} judged: Brier {calibration.brier:.3f}, ECE {calibration.ece:.3f}")
    axes.legend(loc="upper left")
    try:
        figure.savefig(path)
    except OSError as error:
        raise Permanent(f"{path} cannot be written: {error}.") from error
