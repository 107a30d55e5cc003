"""Pictures as a file: a GIF, a film in H.264 or a single PNG, with what was commanded and measured written on them."""

import io
from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from fcnet_core.arrays import Array
from fcnet_core.errors import SimulationError

SAMPLES = 12  # pictures from which a GIF's colors are chosen
INK = (38, 44, 52)
QUALITY = {"crf": "21", "preset": "medium"}
AXES, UNITS = ("forward", "sideways", "turning"), ("m/s", "m/s", "rad/s")


def film_writer(path: Path) -> Callable[[Iterable[Image.Image], float], bytes]:
    """Return the function that encodes pictures at a rate [Hz], by the file's suffix. Raises SimulationError."""
    writers, suffix = {".gif": _gif, ".mp4": _mp4, ".png": _png}, path.suffix.lower()
    if suffix not in writers:
        raise SimulationError(f"{path} is no name of a picture; choose one that ends in {', '.join(writers)}")
    if suffix == ".mp4":
        _import_av()
    return writers[suffix]


def captioned(image: Image.Image, commanded: Array, measured: Array) -> Image.Image:
    """Write commanded and measured velocities (3,) [m/s, m/s, rad/s] in the picture's corner; return the picture."""
    size = max(image.height // 26, 9)
    font, draw = ImageFont.load_default(size), ImageDraw.Draw(image)
    rows: list[tuple[str, ...]] = [("", *AXES)]
    for name, values in (("commanded", commanded), ("measured", measured)):
        figures = np.round(values, 2) + 0.0  # 0, not -0
        rows.append((name, *(f"{figure:.2f} {unit}" for figure, unit in zip(figures, UNITS, strict=True))))
    for line, row in enumerate(rows):
        for column, text in enumerate(row):
            place = (size * (1.0 + (1.6 + 5.0 * column if column else 0.0)), size * (0.7 + 1.35 * line))
            draw.text(place, text, fill=INK, font=font)
    return image


def _png(images: Iterable[Image.Image], rate: float) -> bytes:
    *_, last = images
    file = io.BytesIO()
    last.save(file, "PNG", optimize=True)
    return file.getvalue()


def _gif(images: Iterable[Image.Image], rate: float) -> bytes:
    """Encode with one palette for all pictures and without dithering, so that unchanged parts cost nothing."""
    pictures = list(images)
    samples = pictures[:: -(-len(pictures) // SAMPLES)]
    sheet = Image.fromarray(np.concatenate([np.asarray(picture) for picture in samples]))
    palette = sheet.quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=2)  # small bright parts keep their color
    frames = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    ends = np.round(100 * np.arange(len(frames) + 1) / rate)  # a GIF counts hundredths of a second
    durations = (10 * np.diff(ends)).astype(int).tolist()
    file = io.BytesIO()
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:], duration=durations, loop=0, optimize=True)
    return file.getvalue()


def _mp4(images: Iterable[Image.Image], rate: float) -> bytes:
    av, file = _import_av(), io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=Fraction(rate).limit_denominator(1000), options=QUALITY)
        stream.pix_fmt = "yuv420p"
        for number, image in enumerate(images):
            if number == 0:
                stream.width, stream.height = (size - size % 2 for size in image.size)
            frame = av.VideoFrame.from_image(image.crop((0, 0, stream.width, stream.height)))
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return file.getvalue()


def _import_av() -> Any:
    try:
        import av
    except ImportError as error:
        raise SimulationError("a film needs PyAV: pip install av, or write a GIF") from error
    return av
