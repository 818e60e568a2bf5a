"""Write the public names of Deep Lake 3.9.52 as JSON; run by its interpreter.

names.py OUT
"""

from __future__ import annotations

import json
import pkgutil
import sys
import tempfile
from pathlib import Path
from typing import Any


def public(thing: object) -> list[str]:
    """Names without an underscore at their beginning."""
    return sorted(name for name in dir(thing) if not name.startswith("_"))


def names() -> dict[str, Any]:
    """Kind of object -> its names; module names without those of tests; exceptions with the class above each."""
    import deeplake
    import deeplake.util.exceptions as errors
    from deeplake.core.dataset.view_entry import ViewEntry
    from deeplake.enterprise.dataloader import DeepLakeDataLoader
    from PIL import Image

    file = Path(tempfile.mkdtemp()) / "x.png"
    Image.new("RGB", (2, 2)).save(file)
    top = public(deeplake)
    ds = deeplake.empty("mem://names", verbose=False)
    ds.create_tensor("a")
    ds.a.append(1)
    stage = deeplake.compute(lambda sample, out: None)()
    modules = [
        module.name
        for module in pkgutil.walk_packages(deeplake.__path__, "deeplake.", onerror=lambda _: None)
    ]
    classes = {name: getattr(errors, name) for name in public(errors)}
    return {
        "lakebed": top,
        "Dataset": public(ds),
        "Tensor": public(ds.a),
        "Sample": public(type(deeplake.read(str(file)))),
        "LinkedSample": public(deeplake.link("x")),
        "PartialSample": public(deeplake.tiled((4, 4))),
        "Info": public(type(ds.info)),
        "ComputeFunction": public(stage),
        "Pipeline": public(deeplake.compose([stage])),
        "DataLoader": public(DeepLakeDataLoader),
        "ViewEntry": public(ViewEntry),
        "random": public(deeplake.random),
        "meta": sorted({*public(ds.meta), *public(ds.a.meta)}),
        "modules": [name for name in modules if ".test" not in name],
        "exceptions": {
            name: kind.__bases__[0].__name__
            for name, kind in classes.items()
            if isinstance(kind, type) and issubclass(kind, BaseException)
        },
    }


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(names(), indent=0, sort_keys=True))
