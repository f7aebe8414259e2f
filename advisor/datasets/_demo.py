"""Draw images of six kinds of fruit for a demonstration: no download, and no rights of others.

``advisor search --demo`` draws them first. The same images come out each time; other pixels need a
new :data:`VERSION`.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

from advisor.core import UsageError

DEMO_NOTE = (
    "This is a demonstration: its images are drawn, so no figure says anything about photographs."
)
"""Note of a set of images that was drawn here; reports look for it."""

ABOUT = "ABOUT.txt"
"""File that says what the folder is. A folder without it is not of this module."""

VERSION = 1
"""A folder of another version is drawn again."""

TEXT = f"""advisor, demonstration images, version {VERSION}

The images are drawn by a program (advisor/datasets/_demo.py of ondevice-advisor), and show no
real thing. Each folder is a class: your own images can lie in the same way.

Licence: CC0-1.0, https://creativecommons.org/publicdomain/zero/1.0/. Do with them what you like.
"""

IMAGES = 64
"""Images of each class: enough for ten in the validation part."""

SIDE = 160
"""Side of an image in pixels."""

SCALE = 2
"""Factor by which an image is drawn larger, so that edges become smooth."""

MUTED = 0.4
"""Share of a random colour in that of a table; the rest is grey."""

QUALITY = 90
"""Quality of the JPEG files."""

Colour = tuple[int, int, int]
Floats = NDArray[np.float64]
Outline = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Fruit:
    """The looks of a kind of fruit.

    Attributes:
        outline: the radius by the angle in radians, 1 being the size of the fruit; 0 points to the
            right, pi / 2 down.
        colours: colours that it can have; each image has a mix of two.
        stretch: width and height.
        bend: how far its middle is pushed down, in sizes.
        top: what grows on it: ``leaf``, ``star`` or nothing.
    """

    outline: Outline
    colours: tuple[Colour, ...]
    stretch: tuple[float, float] = (1.0, 1.0)
    bend: float = 0.0
    top: str = ""


def _outline_round(angle: Floats) -> Floats:
    return np.ones_like(angle)


def _outline_apple(angle: Floats) -> Floats:
    """Return the outline of an apple: a dent at the top, a smaller one below."""
    dent = 0.2 * np.exp(-((angle + math.pi / 2) ** 2) / 0.12)
    below = 0.07 * np.exp(-((angle - math.pi / 2) ** 2) / 0.08)
    return np.asarray(1.0 - dent - below, np.float64)


def _outline_pear(angle: Floats) -> Floats:
    """Return the outline of a pear: narrow above."""
    neck = 0.42 * np.exp(-((angle + math.pi / 2) ** 2) / 0.25)
    return np.asarray(0.8 - 0.26 * np.sin(-angle) + neck, np.float64)


def _outline_lemon(angle: Floats) -> Floats:
    """Return the outline of a lemon: a small tip at each end."""
    ends = np.minimum(np.abs(angle), math.pi - np.abs(angle))
    return 1.0 + 0.16 * np.exp(-(ends**2) / 0.02)


@cache
def list_fruits() -> Mapping[str, Fruit]:
    """Return the kinds of fruit by the name of their class.

    Some share colours and outlines, so that a network errs now and then.
    """
    return {
        "apple": Fruit(
            _outline_apple,
            ((186, 32, 38), (160, 178, 62), (212, 164, 70)),
            (1.0, 0.93),
            top="leaf",
        ),
        "banana": Fruit(
            _outline_round,
            ((232, 200, 60), (190, 190, 70), (214, 170, 48)),
            (1.15, 0.3),
            bend=0.55,
        ),
        "lemon": Fruit(_outline_lemon, ((236, 214, 62), (206, 206, 74)), (1.05, 0.75)),
        "orange": Fruit(
            _outline_round, ((232, 134, 30), (226, 106, 34), (224, 164, 58)), (0.95, 0.93)
        ),
        "pear": Fruit(
            _outline_pear,
            ((176, 186, 74), (206, 180, 84), (164, 128, 66)),
            (0.85, 1.0),
            top="leaf",
        ),
        "tomato": Fruit(
            _outline_round, ((200, 40, 34), (216, 82, 40), (196, 150, 60)), (1.0, 0.85), top="star"
        ),
    }


def draw_demo(folder: Path) -> Path:
    """Draw the images into a new folder, with a sub-folder for each class, and return it.

    The same images come out each time. A folder that has them already is left as it is. Raises
    UsageError if the folder exists and is another one.
    """
    about = folder / ABOUT
    if about.is_file() and about.read_text(encoding="utf-8", errors="replace") == TEXT:
        return folder
    if folder.exists() and not about.is_file():
        raise UsageError(
            f"'{folder}' exists and has no demonstration images", "name another folder with --out"
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".demo-") as temporary:
            images = Path(temporary) / "images"
            _write_images(images)
            # A folder that is complete takes the name at once:
            # a search that is interrupted leaves no half of it.
            shutil.rmtree(folder, ignore_errors=True)
            images.rename(folder)
    except OSError as error:
        problem = f"the images cannot be written to the folder '{folder.parent}': {error.strerror}"
        raise UsageError(problem, "name another folder with --out") from None
    return folder


def _write_images(folder: Path) -> None:
    for label in list_fruits():
        (folder / label).mkdir(parents=True)
        for number in range(IMAGES):
            draw_fruit(label, number).save(
                folder / label / f"{label}-{number:02}.jpg", quality=QUALITY
            )
    (folder / ABOUT).write_text(TEXT, encoding="utf-8")


def is_demo(folder: Path) -> bool:
    """Return whether a folder has drawn images of this module."""
    try:
        about = (folder / ABOUT).read_text(encoding="utf-8")
        return about.startswith(TEXT.split(",")[0] + ", demonstration images")
    except (OSError, UnicodeDecodeError):
        return False


def draw_fruit(label: str, number: int) -> Image.Image:
    """Return an image of a fruit on a table; ``number`` chooses everything but its class."""
    rng = np.random.default_rng([VERSION, list(list_fruits()).index(label), number])
    scene = _draw_table(rng)
    for _ in range(int(rng.integers(0, 3))):
        _put_clutter(scene, rng)
    _put_fruit(scene, list_fruits()[label], rng)
    return _photograph_scene(scene, rng)


def _draw_table(rng: np.random.Generator) -> Image.Image:
    """Return a surface of one colour with boards, a cloth's squares, or nothing on it."""
    side = SIDE * SCALE
    grey = rng.uniform(50, 220)
    base = grey + MUTED * (rng.uniform(40, 230, 3) - grey)
    scene = Image.new("RGB", (side, side), _make_colour(base))
    draw = ImageDraw.Draw(scene)
    kind = rng.integers(0, 3)
    step = int(rng.integers(side // 10, side // 4))
    for place in range(0, side, step):
        shade = _make_colour(base + rng.integers(-26, 27))
        if kind == 0:
            draw.rectangle((0, place, side, place + step - 2), fill=shade)
        elif kind == 1:
            for left in range((place // step % 2) * step, side, 2 * step):
                draw.rectangle((left, place, left + step, place + step), fill=shade)
    return scene


def _put_clutter(scene: Image.Image, rng: np.random.Generator) -> None:
    """Draw a plate or a box that has nothing to do with the class."""
    side = SIDE * SCALE
    left, top = rng.integers(-side // 4, side, 2)
    width, height = rng.integers(side // 8, side // 2, 2)
    box = (left, top, left + width, top + height)
    fill = _make_colour(rng.integers(20, 255, 3))
    draw = ImageDraw.Draw(scene)
    if rng.random() < 0.5:
        draw.ellipse(tuple(map(int, box)), fill=fill)
    else:
        draw.rectangle(tuple(map(int, box)), fill=fill)


def _put_fruit(scene: Image.Image, fruit: Fruit, rng: np.random.Generator) -> None:
    """Draw a fruit of a random size, place, turn and colour, with its shadow and its light."""
    side = SIDE * SCALE
    size = side * rng.uniform(0.16, 0.34)
    centre = side * rng.uniform(0.32, 0.68, 2)
    turn = rng.uniform(-0.7, 0.7) + (math.pi if rng.random() < 0.15 else 0.0)
    outline = _place_outline(_list_outline(fruit, rng), size, centre, turn)
    mask = Image.new("L", (side, side))
    ImageDraw.Draw(mask).polygon(outline, fill=255)
    _put_shadow(scene, mask, rng)
    scene.paste(_paint_skin(fruit, size, centre, rng), mask=mask)
    if fruit.top and rng.random() < 0.75:  # a leaf can be lost
        _put_top(scene, fruit, size, centre, turn, rng)


def _list_outline(fruit: Fruit, rng: np.random.Generator) -> np.ndarray:
    """Return the points of an outline around the origin; no two fruits are equal."""
    angle = np.linspace(-math.pi, math.pi, 120, endpoint=False)
    waves = np.zeros_like(angle)
    for count in (1, 2, 3, 4):
        strength = rng.normal(0, 0.025)
        waves += strength * np.cos(count * angle + rng.uniform(0, 6))
    radius = fruit.outline(angle) + waves
    width, height = np.array(fruit.stretch) * rng.uniform(0.9, 1.1, 2)
    x = width * radius * np.cos(angle)
    y = height * radius * np.sin(angle)
    # The middle is pushed down, and the whole up by half of that,
    # so that the fruit stays where it is.
    bent = y + fruit.bend * (1 - (x / width) ** 2) - fruit.bend / 2
    return np.stack([x, bent], axis=1)


def _place_outline(
    points: np.ndarray, size: float, centre: np.ndarray, turn: float
) -> list[tuple[float, float]]:
    cosine = math.cos(turn)
    sine = math.sin(turn)
    turned = points @ np.array([[cosine, sine], [-sine, cosine]])
    return [(float(x), float(y)) for x, y in centre + size * turned]


def _put_shadow(scene: Image.Image, mask: Image.Image, rng: np.random.Generator) -> None:
    right, down = rng.integers(4, 22, 2)
    shadow = Image.new("L", mask.size)
    shadow.paste(mask, (int(right), int(down)))
    shadow = shadow.filter(ImageFilter.GaussianBlur(9)).point(lambda value: value * 0.5)
    scene.paste((15, 15, 20), mask=shadow)


def _paint_skin(
    fruit: Fruit, size: float, centre: np.ndarray, rng: np.random.Generator
) -> Image.Image:
    """Return the colour of a fruit everywhere in the image: two colours, darker away from the
    light.
    """
    places = rng.integers(0, len(fruit.colours), 2)
    first, second = (np.array(fruit.colours[place], float) for place in places)
    y, x = np.mgrid[0:SIDE, 0:SIDE] * SCALE / size
    across = x - centre[0] / size
    down = y - centre[1] / size
    direction = rng.uniform(0, 2 * math.pi)
    along = across * math.cos(direction) + down * math.sin(direction)
    ripe = np.clip(0.5 + 0.6 * along, 0, 1)[..., None]
    light = rng.uniform(-0.5, 0.5, 2)
    away = (across - light[0]) ** 2 + (down - light[1]) ** 2
    shade = np.clip(1.18 - 0.42 * away, 0.35, 1.2)[..., None]
    shine = 90 * np.exp(-away / 0.03)[..., None]
    spots = rng.normal(0, rng.uniform(2, 9), (SIDE, SIDE, 1))
    colours = (first * ripe + second * (1 - ripe)) * shade + shine + spots
    return _make_image(colours).resize((SIDE * SCALE, SIDE * SCALE))


def _put_top(
    scene: Image.Image,
    fruit: Fruit,
    size: float,
    centre: np.ndarray,
    turn: float,
    rng: np.random.Generator,
) -> None:
    """Draw a stem with a leaf, or the green star of a tomato."""
    draw = ImageDraw.Draw(scene)
    green = _make_colour(np.array([60, 120, 50]) + rng.integers(-25, 26, 3))
    if fruit.top == "leaf":
        stem = np.array([[-0.04, -1.2], [0.04, -1.2], [0.05, -0.75], [-0.05, -0.75]])
        draw.polygon(_place_outline(stem, size, centre, turn), fill=(86, 62, 40))
        leaf = np.array([[0.02, -1.0], [0.25, -1.22], [0.55, -1.15], [0.3, -0.98]])
        draw.polygon(_place_outline(leaf, size, centre, turn), fill=green)
        return
    points = 10
    angle = np.linspace(0, 2 * math.pi, points, endpoint=False)
    radius = np.where(np.arange(points) % 2, 0.12, 0.42)
    x = radius * np.cos(angle)
    y = 0.6 * radius * np.sin(angle) - 0.55
    star = np.stack([x, y], axis=1)
    draw.polygon(_place_outline(star, size, centre, turn), fill=green)


def _photograph_scene(scene: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Return a scene as a phone takes it: smaller, with blur, a colour cast, other light and
    noise.
    """
    small = scene.resize((SIDE, SIDE), Image.Resampling.BOX)
    small = small.filter(ImageFilter.GaussianBlur(float(rng.uniform(0, 1.6))))
    light = rng.uniform(0.45, 1.25) * rng.uniform(0.88, 1.12, 3)
    noise = rng.normal(0, rng.uniform(2, 14), (SIDE, SIDE, 3))
    return _make_image(np.asarray(small) * light + noise)


def _make_image(values: np.ndarray) -> Image.Image:
    return Image.fromarray(np.clip(values, 0, 255).astype(np.uint8))


def _make_colour(values: np.ndarray) -> Colour:
    red, green, blue = map(int, np.clip(values, 0, 255))
    return red, green, blue
