"""Sounds: WAV files to log-mel frames, and through the pipeline as images go."""

import io
import math
import shutil
import sys
import warnings
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from scipy.io import wavfile

from embedbench.errors import UserError
from embedbench.extract.log_mel_backbone import LogMel
from embedbench.extract.open_source import open_source
from embedbench.extract.pipeline import extract
from embedbench.extract.sound_files import _declared_size, read_sound, read_wav


def wav(rate: int, sound: NDArray[Any]) -> bytes:
    out = io.BytesIO()
    wavfile.write(out, rate, sound)
    return out.getvalue()


def wav24(rate: int, sound: NDArray[np.int32]) -> bytes:
    """Write (n, channels) 24-bit values; scipy's writer cannot."""
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setparams((sound.shape[1], 3, rate, 0, "NONE", ""))
        file.writeframes(sound.astype("<i4").reshape(-1, 1).view(np.uint8)[:, :3].tobytes())
    return out.getvalue()


def noise(n: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).uniform(-0.9, 0.9, n).astype(np.float32)


def sine(hertz: float, rate: int, seconds: float = 1) -> NDArray[np.float32]:
    t = np.arange(int(seconds * rate)) / rate
    return (0.5 * np.sin(2 * np.pi * hertz * t)).astype(np.float32)


def to_mel(hertz: float) -> float:
    """HTK's formula as its book prints it."""
    return 2595 * math.log10(1 + hertz / 700)


def centre(band: int) -> float:
    """The frequency at the top of a band's triangle: 128 tops between 125 and 7,500 Hz."""
    step = (to_mel(7500) - to_mel(125)) / 129
    return float(700 * (10 ** ((to_mel(125) + (band + 1) * step) / 2595) - 1))


def plainly(sound: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the frame of one second at 16 kHz, window by window and band by band."""
    n, k = np.arange(400), np.arange(1025)
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * n / 400)
    waves = np.exp(-2j * np.pi * np.outer(k, n) / 2048)  # (1025, 400): padding adds nothing
    bins = [to_mel(16000 * i / 2048) for i in k]
    step = (to_mel(7500) - to_mel(125)) / 129
    tops = [to_mel(125) + (band + 1) * step for band in range(128)]
    bands = np.array([[max(0.0, 1 - abs(mel - top) / step) for mel in bins] for top in tops])
    windows = []
    for start in range(0, 16000 - 400 + 1, 160):
        magnitudes = abs(waves @ (hann * sound[start : start + 400].astype(np.float64)))
        windows.append([math.log(np.dot(weights, magnitudes) + 0.01) for weights in bands])
    assert len(windows) == 98
    return np.asarray(np.mean(windows, axis=0))


def test_one_second_of_noise_worked_plainly() -> None:
    sound = noise(16000)
    # logs of float32 arithmetic: magnitudes of about 1 are right to about 1e-5 of themselves
    np.testing.assert_allclose(LogMel(1).frames(16000, sound), plainly(sound), atol=2e-4)


def test_resampling_keeps_the_frequency() -> None:
    hertz = centre(60)  # below 4 kHz, which every rate can hold
    expected, *others = (LogMel(1).frames(r, sine(hertz, r)) for r in (16000, 8000, 11025, 44100))
    for got in others:
        assert got.argmax() == 60
        assert got[60] == pytest.approx(expected[60], abs=0.02)


def test_silence_is_the_floor_and_short_sounds_end_in_it() -> None:
    silent = LogMel(10).frames(16000, np.zeros(160000, np.float32))
    np.testing.assert_allclose(silent, math.log(0.01), atol=1e-6)
    frames = LogMel(10).frames(16000, noise(40000)).reshape(10, 128)  # 2.5 seconds
    assert (frames[:3] > silent.max() + 0.1).all()
    np.testing.assert_array_equal(frames[3:].ravel(), silent[3 * 128 :])


@pytest.mark.parametrize("rate", [16000, 44100])
def test_long_sounds_are_cut(rate: int) -> None:
    model, long = LogMel(2), noise(5 * rate)
    frames = model.frames(rate, long)
    np.testing.assert_array_equal(frames, model.frames(rate, long[: 3 * rate]))
    np.testing.assert_array_equal(frames[:128], LogMel(1).frames(rate, long))
    np.testing.assert_array_equal(frames, model.prepare(wav(rate, long)))


def test_every_width_holds_the_same_sound() -> None:
    sound = noise(1000)
    steps = {
        "8": (wav(8000, np.round(sound * 2**7 + 2**7).astype(np.uint8)), 2.0**-8),
        "16": (wav(8000, np.round(sound * 2**15).astype(np.int16)), 2.0**-16),
        "24": (wav24(8000, np.round(sound * 2**23).astype(np.int32)[:, None]), 2.0**-23),
        "32": (wav(8000, (sound * np.float64(2**31)).astype(np.int32)), 2.0**-23),
        "float": (wav(8000, sound), 0),
        "double": (wav(8000, sound.astype(np.float64)), 0),
    }
    for name, (content, step) in steps.items():
        rate, values = read_wav(content)
        assert rate == 8000, name
        assert values.dtype.name == "float32", name
        np.testing.assert_allclose(values, sound, rtol=0, atol=step, err_msg=name)
    for rate in (1000, 384_000):
        assert read_wav(wav(rate, sound))[0] == rate
    # full scale and the middle, exactly
    for dtype, both in ((np.uint8, [0, 128]), (np.int16, [-(2**15), 0]), (np.int32, [-(2**31), 0])):
        assert read_wav(wav(8000, np.array(both, dtype)))[1].tolist() == [-1, 0]
    assert read_wav(wav24(8000, np.array([[-(2**23)], [2**22]])))[1].tolist() == [-1, 0.5]


def test_stereo_is_the_mean() -> None:
    left, right = noise(500), noise(500, 1)
    both = np.stack([left, right], axis=1)
    content = wav(8000, both)
    assert np.array_equal(read_wav(content)[1], (left + right) / 2)
    three = (both[:, [0, 1, 1]] * 2**22).astype(np.int32)
    expected = (three / 2**23).mean(axis=1)
    np.testing.assert_allclose(read_wav(wav24(8000, three))[1], expected, atol=1e-7)
    # a size that was not known when it was written
    piped = content[:4] + b"\xff\xff\xff\xff" + content[8:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.array_equal(read_wav(piped)[1], (left + right) / 2)


def test_damaged_wavs() -> None:
    for content, sentence in (
        (wav(8000, noise(100))[:-1], "457 bytes of 458"),
        (wav(8000, noise(0)), "no sound"),
        (wav(8000, np.array([0, np.nan], np.float32)), "NaN or infinite"),
        (wav(999, noise(100)), "999 samples a second"),
        (wav(384_001, noise(100)), "384001 samples a second"),
    ):
        with pytest.raises(ValueError, match=sentence):
            read_wav(content)


def sounds(root: Path, n: int) -> Path:
    """Write n sounds of several rates and kinds, in three classes."""
    for i in range(n):
        folder = root / f"s{i % 3 // 2}" / f"c{i % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        rate = (8000, 16000, 22050)[i % 3]
        sound = noise(rate // 20 * (1 + i % 2), i).reshape(-1, 1 + i % 2)
        values = (sound * 30000).astype(np.int16) if i % 2 else sound
        (folder / f"{i:04d}.wav").write_bytes(wav(rate, values))
    return root


def test_a_folder_of_sounds(tmp_path: Path) -> None:
    source = sounds(tmp_path / "in", 12)
    (source / "s0/c0/0000.wav").rename(source / "s0/c0/0000.WAV")
    (source / "s0/c0/notes.txt").write_text("left out")
    (source / "s0/c0/0021.wav").write_bytes(b"no sound")
    told: list[str] = []
    options: dict[str, Any] = {"backbone": "log-mel", "skip_bad": True, "notify": told.append}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        file = extract(str(source), tmp_path / "a.h5", **options)
    assert (
        "left out 1 files that are not read as sounds: 1 .txt (first s0/c0/notes.txt)." in told[0]
    )
    assert told[1:] == ["left out 1 sounds that cannot be used, first s0/c0/0021.wav."]
    assert file.shape == (12, 1280)
    assert file.dtype == np.float32
    assert file.classes == ("c0", "c1", "c2", "s0", "s1")
    model = LogMel(10)
    for row, name in zip(file.read(), file.sample_ids.tolist(), strict=True):
        np.testing.assert_array_equal(row, model.prepare((source / name).read_bytes()))
    made = file.provenance["preprocessing"]
    assert (made["rate"], made["seconds"], made["bands"]) == (16000, 10, 128)
    assert made["mel"] == "HTK, 125 to 7500 Hz, triangles of height 1"
    assert file.provenance["arithmetic"] == {"dtype": "float32", "device_kind": "cpu"}
    short = extract(str(source), tmp_path / "b.h5", size=2, **options)
    np.testing.assert_array_equal(short.read(), file.read()[:, :256])
    assert short.digests["recipe"] != file.digests["recipe"]


def test_sounds_and_images_are_not_mixed(tmp_path: Path) -> None:
    source = sounds(tmp_path / "hums", 3)
    photo = tmp_path / "photos/a/1.png"
    photo.parent.mkdir(parents=True)
    Image.new("L", (4, 4)).save(photo)
    shutil.copy(photo, photo.parent / "2.png")
    log_mel: dict[str, Any] = {"backbone": "log-mel"}
    (tmp_path / "bad/a").mkdir(parents=True)
    for name in "01":
        (tmp_path / f"bad/a/{name}.wav").write_bytes(b"no sound")
    for where, options, sentence in (
        (source, {"backbone": "pixels"}, "^hums .* pixels takes images; .* log-mel"),
        (source, {"backbone": "resnet18"}, "^hums .* resnet18 takes images"),
        (source, {}, "--backbone is missing"),
        (photo.parents[1], log_mel, "^photos .* log-mel takes sounds; .* pixels"),
        (source, {"dtype": "float16", **log_mel}, "^log-mel .* no .*--dtype"),
        (source, {"layers": ["1"], **log_mel}, "^log-mel .* no .*--layers"),
        (tmp_path / "bad", {"skip_bad": True, **log_mel}, "none of .*2 sounds .*a/0.wav"),
    ):
        with pytest.raises(UserError, match=sentence):
            extract(str(where), tmp_path / "a.h5", **options)
    with pytest.raises(ValueError, match="not a sound"):
        LogMel(1).prepare(np.zeros((4, 4), np.uint8))
    shutil.copy(photo, source / "s0/c0/cover.png")
    with pytest.raises(UserError, match=r"hums .*1 images .*/cover\.png.* 3 sounds .*/0000\.wav"):
        open_source(str(source))


def by_soundfile(values: NDArray[Any], rate: int, form: str) -> bytes:
    soundfile = pytest.importorskip("soundfile")
    target = io.BytesIO()
    soundfile.write(target, values, rate, format=form)
    return target.getvalue()


def test_flac_gives_the_samples_of_wav() -> None:
    both = np.random.default_rng(0).integers(-(2**15), 2**15, (9000, 2)).astype(np.int16)
    content = by_soundfile(both, 8000, "FLAC")
    rate, values = read_sound(content, 1)
    assert rate == 8000
    assert len(values) == 8000
    assert np.array_equal(values, read_wav(wav(8000, both), 1)[1])
    many = by_soundfile(np.ones((800, 33), np.int16), 8000, "OGG")
    with pytest.raises(ValueError, match="33 channels; at most 32"):
        read_sound(many, 1)
    assert read_sound(by_soundfile(np.ones((800, 32), np.int16), 8000, "OGG"), 1)[0] == 8000
    for damaged in (content[:200], content[: len(content) // 2], b"fLaC" + bytes(100)):
        with pytest.raises(ValueError, match=r"cut short|libsndfile"):
            read_sound(damaged, 10)


@pytest.mark.parametrize("form", ["OGG", "MP3"])
def test_a_tone_survives(form: str) -> None:
    rate, values = read_sound(by_soundfile(sine(440, 16_000), 16_000, form), 1)
    assert rate == 16_000
    np.testing.assert_allclose(values[2000:14_000], sine(440, 16_000)[2000:14_000], atol=0.05)


def test_an_mp3_begins_with_a_tag_or_with_eleven_set_bits() -> None:
    content = by_soundfile(np.sin(np.arange(8000, dtype=np.float32) / 10), 8000, "MP3")
    tag = b"ID3\x04\x00\x00" + bytes([0, 0, 2, 44]) + bytes(300)  # seven bits a byte: 2·128 + 44
    rate, values = read_sound(content, 1)
    tagged_rate, tagged = read_sound(tag + content, 1)
    assert rate == 8000
    assert len(values) == 8000
    assert tagged_rate == 8000
    np.testing.assert_array_equal(tagged, values)
    for starts, reader in (
        ((b"ID3", b"\xff\xe0", b"\xff\xff"), "libsndfile"),
        ((b"ID2", b"\xff\xdf", b"\xfe\xff", b"\xff"), "scipy"),
    ):
        for start in starts:
            with pytest.raises(ValueError, match=reader):
                read_sound(start + bytes(50), 1)


def test_flac_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.flac").write_bytes(by_soundfile(noise(9000), 8000, "FLAC"))
    source = open_source(str(tmp_path))
    assert source.holds == "sounds"
    assert source.ids == ("a/1.flac",)
    monkeypatch.setitem(sys.modules, "soundfile", None)
    content = source.read(0)
    assert isinstance(content, bytes)
    with pytest.raises(UserError, match="needs soundfile"):
        read_sound(content, 1)


@pytest.mark.parametrize(
    ("head", "size"),
    [
        (b"FORM" + (100).to_bytes(4, "big") + b"AIFF", 108),
        (b".snd" + (24).to_bytes(4, "big") + (50).to_bytes(4, "big"), 74),
        (b".snd" + (24).to_bytes(4, "big") + b"\xff" * 4, 0),  # written to a pipe
        (b"fLaC" + bytes(8), 0),
    ],
)
def test_bytes_that_a_header_declares(head: bytes, size: int) -> None:
    assert _declared_size(head) == size
