"""Models made from a seed, as tests/seeded.rs makes them: a recipe of tests/golden/seeded, and the numbers of each tensor."""

import json
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent.parent / "golden" / "seeded"


def read(name):
    """A recipe; what one that is like another leaves out is that one's, and of keys and tensors those that are null go."""
    recipe = json.loads((FOLDER / f"{name}.json").read_text())
    if "like" in recipe:
        other = json.loads((FOLDER / f"{recipe['like']}.json").read_text())
        for part in ("keys", "tensors"):
            both = {**other[part], **recipe.get(part, {})}
            recipe[part] = {key: value for key, value in both.items() if value is not None}
        recipe = {**other, **recipe}
    return recipe


def noise(name, count):
    """Numbers from -1 to 1 that depend on the name alone, as floats."""
    mask, state = (1 << 64) - 1, 0xCBF29CE484222325
    for byte in name.encode():
        state = ((state ^ byte) * 0x100000001B3) & mask
    found = np.empty(count, np.float32)
    for i in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) & mask
        found[i] = state >> 40
    return found / np.float32(1 << 23) - np.float32(1)


def numbers(name, dims):
    """A tensor as doubles, `[..., rows, columns]`: in the file it is of floats."""
    if "norm" in name and name.endswith(".weight"):
        middle, size = 1.0, 0.2
    elif "ssm_a" in name:
        middle, size = -0.6, 0.4
    elif len(dims) == 1:
        middle, size = 0.0, 0.3
    elif "token_embd" in name:
        middle, size = 0.0, 1.5
    else:
        middle, size = 0.0, np.sqrt(np.float32(3) / np.float32(dims[0]))
    values = np.float32(middle) + np.float32(size) * noise(name, int(np.prod(dims)))
    return values.astype(np.float64).reshape(dims[::-1])


def tensors(recipe):
    """All tensors of a recipe, by name."""
    return {name: numbers(name, dims) for name, dims in recipe["tensors"].items()}


def compared(recipe, logits):
    """The rows and columns that the recipe compares."""
    columns = logits[recipe["rows"], recipe.get("from", 0) :: recipe["every"]]
    return columns.reshape(-1)


def nmse(found, expected):
    """Squares of differences by squares of what is expected."""
    return float(np.sum((found - expected) ** 2) / np.sum(expected**2))
