"""Display of datasets: printed tables, HTML in notebooks, drawn annotations, and the viewer."""
