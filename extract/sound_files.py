"""Read files of sound: WAV; and FLAC, Ogg, MP3, AIFF and AU with soundfile (libsndfile)."""

import io

import numpy as np
from scipy.io import wavfile

from embedbench.array_types import Array, Float32s
from embedbench.errors import import_extra

from .source import EncodedSample

SLOWEST, FASTEST = 1_000, 384_000  # other sample rates are refused
READS = 20_000  # most calls of `read` that a file takes; there are two a chunk
PIECE = 2**20  # values that are scaled at a time
CHANNELS = 32  # most of a file that libsndfile reads
_BY_LIBSNDFILE = (b"fLaC", b"OggS", b"FORM", b".snd")


def read_sound(content: object, seconds: int) -> tuple[int, Float32s]:
    """Return rate and (n,) samples of the first seconds of a file, the mean of its channels.

    What the file is follows from its bytes, not from its name; ValueError if they are no sound.
    """
    if not isinstance(content, bytes):
        raise ValueError("an image, not a sound")
    mp3 = content[:3] == b"ID3" or (content[:1] == b"\xff" and content[1:2] >= b"\xe0")
    if content[:4] not in _BY_LIBSNDFILE and not mp3:
        return read_wav(content, seconds)
    if len(content) < _declared_size(content):  # libsndfile would read what is there
        raise ValueError(f"cut short: {len(content)} bytes of {_declared_size(content)}")
    soundfile = import_extra("soundfile", "audio", "it")
    try:
        with soundfile.SoundFile(io.BytesIO(content)) as file:
            if file.channels > CHANNELS:
                raise ValueError(f"{file.channels} channels; at most {CHANNELS} are possible")
            rate = _checked_rate(file.samplerate)
            wanted = min(file.frames, seconds * rate)
            sound = file.read(wanted, dtype="float32", always_2d=True)
            if len(sound) < wanted:
                raise ValueError("cut short")
    except soundfile.LibsndfileError as error:
        raise ValueError(
            f"not a file of sound that libsndfile reads: {error.error_string}"
        ) from error
    return rate, _checked(sound.mean(axis=1, dtype=np.float32))


def _declared_size(content: bytes) -> int:
    """Return the bytes that the header of an AIFF or AU file declares; 0: it says nothing."""
    if content[:4] == b"FORM":
        return int.from_bytes(content[4:8], "big") + 8
    size = int.from_bytes(content[8:12], "big")
    if content[:4] != b".snd" or size == 0xFFFFFFFF:  # written to a pipe
        return 0
    return int.from_bytes(content[4:8], "big") + size


def _checked_rate(rate: int) -> int:
    if not SLOWEST <= rate <= FASTEST:
        raise ValueError(f"{rate} samples a second; expected {SLOWEST} to {FASTEST}")
    return int(rate)


def _checked(values: Float32s) -> Float32s:
    if not values.size:
        raise ValueError("no sound in it")
    if not np.isfinite(values).all():
        raise ValueError("samples that are NaN or infinite")
    return values


def read_wav(content: bytes, seconds: int | None = None) -> tuple[int, Float32s]:
    """Return rate and (n,) samples of a WAV file, the mean of its channels, full scale at ±1.

    `seconds` are used from the start; None: all. Damaged bytes, or others than PCM or
    floating-point samples, are a ValueError.
    """
    size = int.from_bytes(content[4:8], "little") + 8
    # writers to a pipe put the largest size
    if content[:4] == b"RIFF" and len(content) < size < 0xFFFFFFFF:
        raise ValueError(f"cut short: {len(content)} bytes of {size}")
    try:
        rate, sound = wavfile.read(EncodedSample(content, READS))
    except Exception as error:  # scipy's reader raises many kinds of errors on damaged bytes
        raise ValueError(f"not a WAV file that scipy reads: {error}") from error
    _checked_rate(rate)
    if not sound.size:
        raise ValueError("no sound in it")
    sound = sound[: None if seconds is None else seconds * rate]
    step = max(1, PIECE * len(sound) // sound.size)
    with np.errstate(over="ignore"):  # too large for float32: infinite, which is refused
        pieces = (_scaled(sound[at : at + step]) for at in range(0, len(sound), step))
        mono = [x if x.ndim == 1 else x.mean(axis=1, dtype=np.float32) for x in pieces]
    return int(rate), _checked(np.concatenate(mono))


def _scaled(sound: Array) -> Float32s:
    """Return samples with full scale at ±1; scipy puts 24 bits into the upper bits of 32."""
    if sound.dtype.kind == "f":
        return sound.astype(np.float32)
    if sound.dtype == np.uint8:
        return (sound.astype(np.float32) - np.float32(128)) / np.float32(128)
    scaled: Float32s = (sound / -float(np.iinfo(sound.dtype).min)).astype(np.float32)
    return scaled
