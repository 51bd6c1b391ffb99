"""Other people's packages that ours is measured beside, and how to have them.

    make setup EXTRAS=hf
    pip install --no-deps -r benchmarks/peers.txt

Without `--no-deps` some of them would replace NumPy, the Hub's clients or torch by older or larger
ones. What is not installed is named in the record, never left out in silence.
"""

import importlib.machinery
import importlib.metadata
import importlib.util
import sys
import types
from collections.abc import Iterable
from typing import Any

INSTALL = "pip install --no-deps -r benchmarks/peers.txt"
PACKAGES = {
    "datasets": ("datasets", "datasets", "make setup"),
    "datatrove": ("datatrove", "datatrove", INSTALL),
    "grain": ("grain", "grain", INSTALL),
    "litdata": ("litdata", "litdata", INSTALL),
    "mosaicml-streaming": ("streaming", "mosaicml-streaming", INSTALL),
}
"""By the peer's name: its module, its distribution and what installs it."""


def missing(names: Iterable[str]) -> dict[str, str]:
    """What installs each of the peers that are not there."""
    return {
        name: PACKAGES[name][2]
        for name in names
        if name in PACKAGES and importlib.util.find_spec(PACKAGES[name][0]) is None
    }


def versions(names: Iterable[str]) -> dict[str, str]:
    """Versions of those of the peers that are packages and are there."""
    there = [name for name in names if name in PACKAGES and not missing([name])]
    return {name: importlib.metadata.version(PACKAGES[name][1]) for name in there}


def streaming() -> Any:
    """mosaicml-streaming; it imports torchvision for pictures, which text can do without."""
    try:
        importlib.import_module("torchvision.datasets")
    except (ImportError, RuntimeError):
        # Absent, or built for another torch.
        for name in [n for n in sys.modules if n.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        _stand_in("torchvision")
        _stand_in("torchvision.datasets", VisionDataset=type("VisionDataset", (), {}))
        _stand_in("torchvision.transforms")
        _stand_in("torchvision.transforms.functional", to_tensor=None)
    return importlib.import_module("streaming")


def _stand_in(name: str, **attributes: object) -> None:
    module = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    module.__dict__.update(attributes)
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], last, module)
