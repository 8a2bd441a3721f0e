"""Matplotlib settings. Only modules that use Matplotlib import this one, because Matplotlib is slow to import."""

import matplotlib

matplotlib.rcParams.update({"font.size": 9, "savefig.dpi": 200, "pdf.fonttype": 42, "image.origin": "upper"})
