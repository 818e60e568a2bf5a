"""Leading steps of transforms that are declared operations.

torchvision is not installed here: stand-ins have the module and attribute names of its classes. The real ones are in
integration_tests/frameworks/test_vision.py.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from lakebed.loaders import ops
from lakebed.loaders.recognition import Recognised, recognised


def stand_in(name: str, module: str = "torchvision.transforms.v2._geometry", **attributes: Any) -> Any:
    """Return an object of a class of that module and name, with attributes as torchvision 0.15 to 0.24 has them."""
    kind = type(name, (), {"__module__": module, "__call__": lambda self, image: image})
    made = kind()
    for attribute, value in attributes.items():
        setattr(made, attribute, value)
    return made


MODE = SimpleNamespace(value="bilinear")
NEAREST = SimpleNamespace(value="nearest")


def composed(*steps: Any, version: int = 2) -> Any:
    module = "torchvision.transforms.v2._container" if version == 2 else "torchvision.transforms.transforms"
    return stand_in("Compose", module, transforms=list(steps))


def test_training_transform_of_torchvision() -> None:
    """Version 2: all is taken, but what follows a step that is not known."""
    own = len
    transform = composed(
        stand_in("ToImage", "torchvision.transforms.v2._type_conversion"),
        stand_in(
            "RandomResizedCrop",
            size=(224, 224),
            scale=(0.08, 1.0),
            ratio=(0.75, 4 / 3),
            interpolation=MODE,
            antialias=True,
        ),
        stand_in("RandomHorizontalFlip", p=0.5),
        stand_in("ToDtype", "torchvision.transforms.v2._misc", dtype="torch.float32", scale=True),
        stand_in("Normalize", "torchvision.transforms.v2._misc", mean=[0.5, 0.4, 0.3], std=[0.2, 0.2, 0.2]),
        own,
        stand_in("RandomHorizontalFlip", p=0.5),
    )
    found = recognised(transform)
    assert found.operations == ops.Compose(
        [
            ops.ChannelsFirst(),
            ops.RandomResizedCrop(224, ratio=(0.75, 4 / 3)),
            ops.HorizontalFlip(0.5),
            ops.ToFloat(),
            ops.Normalize((0.5, 0.4, 0.3), (0.2, 0.2, 0.2)),
        ]
    )
    assert found.operations.planar
    assert found.given == "image"
    assert found.rest == tuple(transform.transforms[5:])


def test_evaluation_transform_of_torchvision() -> None:
    """Version 1, with sizes as it keeps them."""
    module = "torchvision.transforms.transforms"
    found = recognised(
        composed(
            stand_in("Resize", module, size=256, interpolation=MODE, max_size=None, antialias=True),
            stand_in("CenterCrop", module, size=(224, 224)),
            stand_in("ToTensor", module),
            version=1,
        )
    )
    assert found == Recognised(
        ops.Compose([ops.Resize(256), ops.CenterCrop(224), ops.ChannelsFirst(), ops.ToFloat()]),
        (),
        given="tensor",
    )


def test_pictures_of_pillow_are_made_where_a_function_needs_them() -> None:
    """The transform that most tutorials for Deep Lake 3.x have begins with ``ToPILImage``."""
    module = "torchvision.transforms.transforms"
    picture = stand_in("ToPILImage", module, mode=None)
    flip, other = stand_in("RandomHorizontalFlip", module, p=0.5), stand_in("ColorJitter", module)
    tensor = stand_in("ToTensor", module)
    assert recognised(composed(picture, flip, tensor, version=1)) == Recognised(
        ops.Compose([ops.HorizontalFlip(0.5), ops.ChannelsFirst(), ops.ToFloat()]), (), given="tensor"
    )
    assert recognised(composed(picture, flip, tensor, other, version=1)).rest == (other,)
    assert recognised(composed(picture, flip, other, tensor, version=1)) == Recognised(
        ops.Compose([ops.HorizontalFlip(0.5)]), (picture, other, tensor)
    )
    assert recognised(composed(picture, other, version=1)) == Recognised(ops.Compose([]), (picture, other))
    assert recognised(composed(stand_in("ToPILImage", module, mode="L"), flip)).operations == ops.Compose([])


def crop(**changes: Any) -> Any:
    return stand_in(
        "RandomCrop",
        **{
            "size": (32, 32),
            "padding": 4,
            "pad_if_needed": False,
            "fill": 0,
            "padding_mode": "constant",
            **changes,
        },
    )


def test_steps_that_mean_something_else_are_left() -> None:
    """Other interpolations, paddings, dtypes, classes of users with such names."""
    for step in (
        stand_in("Resize", size=[256], interpolation=NEAREST, max_size=None, antialias=True),
        stand_in("Resize", size=[256], interpolation=MODE, max_size=None, antialias=False),
        stand_in("Resize", size=None, interpolation=MODE, max_size=99, antialias=True),
        crop(fill=255),
        crop(padding_mode="reflect"),
        stand_in("ToDtype", dtype="torch.float32", scale=False),
        stand_in("ToDtype", dtype="torch.float16", scale=True),
        stand_in("Normalize", mean=[0.5], std=[0.5]),
        stand_in("CenterCrop", "mine.transforms", size=(8, 8)),
        stand_in("CenterCrop", "torchvision.transforms_of_mine", size=(8, 8)),
        stand_in("ColorJitter"),
    ):
        found = recognised([ops.HorizontalFlip(), step])
        assert found == Recognised(ops.Compose([ops.HorizontalFlip()]), (step,))
    assert recognised(crop()).operations == ops.Compose([ops.RandomCrop(32, 4)])
    assert recognised(crop(padding=[4, 4, 4, 4])).operations == ops.Compose([ops.RandomCrop(32, 4)])
    by_number = stand_in("Resize", size=[256], interpolation=2, max_size=None, antialias=True)
    assert recognised(by_number).operations == ops.Compose([ops.Resize(256)])
    assert recognised(len) == Recognised(ops.Compose([]), (len,))


def test_own_compositions_stay_what_they_are() -> None:
    exact = ops.Compose([ops.RandomResizedCrop(8)], scaled=False)
    assert recognised(exact).operations is exact


def test_own_operations_before_own_functions() -> None:
    """Functions behind our operations get arrays, with channels where the operations put them."""
    found = recognised([ops.CenterCrop(8), ops.ChannelsFirst(), len])
    assert found == Recognised(ops.Compose([ops.CenterCrop(8), ops.ChannelsFirst()]), (len,))
    assert found.operations.planar
    assert found.given == "array"


def test_crops_of_floats_are_left() -> None:
    """What torchvision would resize as floats is not resized as bytes."""
    late = stand_in("CenterCrop", size=(8, 8))
    found = recognised(composed(stand_in("ToTensor"), late))
    assert found == Recognised(ops.Compose([ops.ChannelsFirst(), ops.ToFloat()]), (late,), given="tensor")
