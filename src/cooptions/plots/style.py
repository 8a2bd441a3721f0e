"""How figures look. Modules that draw with Matplotlib import it, and no others: Matplotlib takes long to import."""

import matplotlib

matplotlib.rcParams.update({"font.size": 9, "savefig.dpi": 200, "pdf.fonttype": 42, "image.origin": "upper"})
