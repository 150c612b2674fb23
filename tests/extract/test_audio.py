"""Sounds: WAV files to log-mel frames, and through the pipeline as images go."""

import io
import math
import sys
import warnings
import wave
import zipfile
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
from embedbench.extract.sound_files import read_sound, read_wav
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.resumable_file import Partial
from embedbench.files.sample_metadata import TEST, TRAIN


def wav(rate: int, sound: NDArray[Any]) -> bytes:
    out = io.BytesIO()
    wavfile.write(out, rate, sound)
    return out.getvalue()


def wav24(rate: int, sound: NDArray[np.int32]) -> bytes:
    """Write (n, channels) 24-bit values; scipy's writer cannot."""
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(sound.shape[1])
        file.setsampwidth(3)
        file.setframerate(rate)
        file.writeframes(sound.astype("<i4").reshape(-1, 1).view(np.uint8)[:, :3].tobytes())
    return out.getvalue()


def noise(n: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).uniform(-0.9, 0.9, n).astype(np.float32)


def sine(hertz: float, rate: int, seconds: float = 1) -> NDArray[np.float32]:
    t = np.arange(int(seconds * rate)) / rate
    return (0.5 * np.sin(2 * np.pi * hertz * t)).astype(np.float32)


# --- the formula


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
    for seed in range(2):
        sound = noise(16000, seed) * np.float32(0.1**seed)
        got = LogMel(1).frames(16000, sound)
        # logs of float32 arithmetic: magnitudes of about 1 are right to about 1e-5 of themselves
        np.testing.assert_allclose(got, plainly(sound), atol=2e-4)


@pytest.mark.parametrize("band", [0, 3, 20, 64, 100, 127])
def test_a_sine_peaks_in_the_band_of_its_frequency(band: int) -> None:
    frames = LogMel(3).frames(16000, sine(centre(band), 16000, 3)).reshape(3, 128)
    assert frames.argmax(axis=1).tolist() == [band] * 3
    far = np.abs(np.arange(128) - band) > 25
    assert (frames[:, far] < frames.max() - 3).all()


@pytest.mark.parametrize("rate", [8000, 11025, 22050, 44100, 48000, 96000])
def test_resampling_keeps_the_frequency(rate: int) -> None:
    model = LogMel(1)
    for band in (20, 60):  # below 4 kHz, which every rate can hold
        hertz = centre(band)
        got = model.frames(rate, sine(hertz, rate))
        expected = model.frames(16000, sine(hertz, 16000))
        assert got.argmax() == band
        assert got[band] == pytest.approx(expected[band], abs=0.02)


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
    assert frames.shape == (256,)
    np.testing.assert_array_equal(frames, model.frames(rate, long[: 3 * rate]))
    np.testing.assert_array_equal(frames[:128], LogMel(1).frames(rate, long))
    second = model.frames(16000, noise(32000)).reshape(2, 128)[1]
    np.testing.assert_array_equal(second, LogMel(1).frames(16000, noise(32000)[16000:]))


# --- WAV files


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
        assert (rate, values.dtype.name, values.shape) == (8000, "float32", (1000,)), name
        np.testing.assert_allclose(values, sound, rtol=0, atol=step, err_msg=name)
    # full scale and the middle, exactly
    ends = {
        np.uint8: [0, 128], np.int16: [-32768, 0], np.int32: [-(2**31), 0],
    }  # fmt: skip
    for dtype, both in ends.items():
        assert read_wav(wav(8000, np.array(both, dtype)))[1].tolist() == [-1, 0]
    assert read_wav(wav24(8000, np.array([[-(2**23)], [2**22]])))[1].tolist() == [-1, 0.5]


def test_stereo_is_the_mean() -> None:
    left, right = noise(500), noise(500, 1)
    both = np.stack([left, right], axis=1)
    assert np.array_equal(read_wav(wav(8000, both))[1], (left + right) / 2)
    three = (both[:, [0, 1, 1]] * 2**22).astype(np.int32)
    expected = (three / 2**23).mean(axis=1)
    np.testing.assert_allclose(read_wav(wav24(8000, three))[1], expected, atol=1e-7)


def test_chunks_beside_the_sound_are_passed_over() -> None:
    content = wav(8000, noise(100))
    info = b"LIST" + (10).to_bytes(4, "little") + b"INFOmore.."
    longer = content[:4] + (len(content) + len(info) - 8).to_bytes(4, "little")
    longer += content[8:12] + info + content[12:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.array_equal(read_wav(longer)[1], noise(100))
        piped = longer[:4] + b"\xff\xff\xff\xff" + longer[8:]  # as written without seeking
        assert np.array_equal(read_wav(piped)[1], noise(100))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "not a WAV file"),
        (b"<html>no such file</html>", "not a WAV file"),
        (wav(8000, noise(100))[:-1], r"cut short: \d+ bytes of \d+"),
        (wav(8000, noise(100))[:60], "cut short"),
        (wav(8000, noise(0)), "no sound in it"),
        (wav(8000, np.array([0, np.nan], np.float32)), "NaN or infinite"),
        (wav(3, noise(100)), "3 samples a second; expected 1000 to 384000"),
        (wav(10**9, noise(100)), "1000000000 samples a second"),
    ],
)
def test_damaged_wavs(content: bytes, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        read_wav(content)


def test_garbled_wavs_are_read_or_refused() -> None:
    rng = np.random.default_rng(0)
    whole, refused = wav(8000, noise(50)), 0
    for _ in range(400):
        data = bytearray(whole)
        for at in rng.integers(0, 44, 2):  # in the header
            data[at] = rng.integers(256)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                read_wav(bytes(data))
        except ValueError:
            refused += 1
    assert 50 < refused < 400


# --- the pipeline


def sounds(root: Path, n: int, seed: int = 0) -> Path:
    """Write n sounds of several rates and kinds, in three classes."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        folder = root / f"s{i % 3 // 2}" / f"c{i % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        rate = (8000, 16000, 22050)[i % 3]
        sound = rng.uniform(-0.5, 0.5, (rate // 20, 1 + i % 2))
        kind = (np.float32, np.int16)[i % 2]
        values = (sound * 30000).astype(kind) if kind is np.int16 else sound.astype(kind)
        (folder / f"{i:04d}.wav").write_bytes(wav(rate, values))
    return root


def test_a_folder_of_sounds(tmp_path: Path) -> None:
    source = sounds(tmp_path / "in", 12)
    (source / "s0/c0/notes.txt").write_text("left out")
    (source / "s0/c0/0000.wav").rename(source / "s0/c0/0000.WAV")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        file = extract(str(source), tmp_path / "a.h5", backbone="log-mel")
    assert file.shape == (12, 1280)
    assert file.dtype == np.float32
    assert file.classes == ("c0", "c1", "c2", "s0", "s1")
    assert file.parents.tolist() == [3, 3, 4, -1, -1]
    model = LogMel(10)
    for row, name in zip(file.read(), file.sample_ids.tolist(), strict=True):
        np.testing.assert_array_equal(row, model.prepare((source / name).read_bytes()))
    made = file.provenance
    assert made["backbone"]["name"] == "log-mel"
    assert made["preprocessing"]["rate"] == 16000
    assert made["preprocessing"]["seconds"] == 10
    assert made["preprocessing"]["mel"] == "HTK, 125 to 7500 Hz, triangles of height 1"
    assert made["arithmetic"] == {"dtype": "float32", "device_kind": "cpu"}
    short = extract(str(source), tmp_path / "b.h5", backbone="log-mel", size=2, group="parent")
    assert short.shape == (12, 256)
    np.testing.assert_array_equal(short.read(), file.read()[:, :256])
    assert short.digests["recipe"] != file.digests["recipe"]
    assert short.provenance["split"]["group"] == "parent"
    with zipfile.ZipFile(tmp_path / "in.zip", "w") as archive:
        for path in sorted(source.rglob("*.[wW]*")):
            archive.write(path, path.relative_to(source))
    zipped = extract(str(tmp_path / "in.zip"), tmp_path / "c.h5", backbone="log-mel")
    assert zipped.digests == file.digests


class KilledError(Exception):
    pass


def test_interrupted_work_resumes_to_the_same_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Partial, "BLOCK", 16)
    source = sounds(tmp_path / "in", 40)
    (source / "s0/c0/0021.wav").write_bytes(b"no sound")
    told: list[str] = []
    options: dict[str, Any] = {"backbone": "log-mel", "size": 1, "skip_bad": True}
    whole = extract(str(source), tmp_path / "whole.h5", notify=told.append, **options)
    assert told == ["left out 1 sounds that cannot be used, first s0/c0/0021.wav."]
    ((name, reason),) = whole.provenance["skipped"]
    assert (name, reason[:14]) == ("s0/c0/0021.wav", "not a WAV file")
    assert len(whole.sample_ids) == 39
    for moment in (0, 24, 36):
        out = tmp_path / f"{moment}.h5"

        def stop(done: int, total: int, moment: int = moment) -> None:
            if done >= moment:
                raise KilledError

        with pytest.raises(KilledError):
            extract(str(source), out, progress=stop, **options)
        assert not out.exists()
        seen: list[int] = []
        resumed = extract(
            str(source),
            out,
            progress=lambda done, _: seen.append(done),  # noqa: B023  called at once
            notify=told.append,
            **options,
        )
        assert seen[0] == moment // 16 * 16  # whole blocks are not computed again
        assert resumed.digests == whole.digests
        assert resumed.provenance["skipped"] == whole.provenance["skipped"]


def test_official_splits_and_the_same_sound_twice(tmp_path: Path) -> None:
    for number, path in enumerate(("train/a/1", "train/b/2", "test/a/3", "test/b/4")):
        place = tmp_path / "in" / f"{path}.wav"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(wav(8000, noise(800, number % 3)))  # 1 and 4 are one sound
    with pytest.warns(UserWarning, match=r"1 sounds are in two splits .*test/b/4\.wav"):
        file = extract(str(tmp_path / "in"), tmp_path / "a.h5", backbone="log-mel", size=1)
    assert file.provenance["split"] == {"rule": "official"}
    split = dict(zip(file.sample_ids.tolist(), file.split.tolist(), strict=True))
    assert split == {
        "test/a/3.wav": TEST, "test/b/4.wav": TEST, "train/a/1.wav": TRAIN, "train/b/2.wav": TRAIN,
    }  # fmt: skip
    assert EmbeddingFile.open(file.path).classes == ("a", "b")


def test_sounds_and_images_are_not_mixed(tmp_path: Path) -> None:
    source = sounds(tmp_path / "hums", 3)

    def refused(sentence: str, where: Path, **options: Any) -> None:
        with pytest.raises(UserError, match=sentence):
            extract(str(where), tmp_path / "a.h5", **options)

    log_mel = {"backbone": "log-mel"}
    refused("hums holds sounds, and pixels takes images; .* log-mel", source, backbone="pixels")
    refused("hums holds sounds, and resnet18 takes images", source, backbone="resnet18")
    refused("--backbone is missing: .* for sounds 'log-mel'", source)
    (tmp_path / "photos/a").mkdir(parents=True)
    for name in "12":
        Image.new("L", (4, 4)).save(tmp_path / f"photos/a/{name}.png")
    photos = tmp_path / "photos"
    refused("photos holds images, and log-mel takes sounds; .* pixels", photos, **log_mel)
    refused("emoji-noto holds images, and log-mel takes", Path("demo"), **log_mel)
    refused("log-mel is a formula: no --weights", source, dtype="float16", **log_mel)
    refused("log-mel is a formula: no --weights", source, layers=["1"], **log_mel)
    refused("--size must be 1 to 10,000", source, size=0, **log_mel)
    refused(
        r"s0/c0/0000\.wav of hums cannot be used \(cut short: .*--skip-bad",
        _cut(source / "s0/c0/0000.wav"),
        **log_mel,
    )
    Image.new("L", (4, 4)).save(source / "s0/c0/cover.png")
    both = r"hums holds 1 images \(first s0/c0/cover\.png\) and 3 sounds \(first s0/c0/0000\.wav\)"
    with pytest.raises(UserError, match=both):
        open_source(str(source))


def _cut(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[:-2])
    return path.parents[2]


# --- FLAC, Ogg and MP3


def by_soundfile(values: NDArray[Any], rate: int, form: str) -> bytes:
    soundfile = pytest.importorskip("soundfile")
    target = io.BytesIO()
    soundfile.write(target, values, rate, format=form)
    return target.getvalue()


def test_flac_gives_the_samples_of_wav() -> None:
    for seed in range(3):
        both = np.random.default_rng(seed).integers(-(2**15), 2**15, (9000, 2)).astype(np.int16)
        rate, values = read_sound(by_soundfile(both, 8000, "FLAC"), 1)
        assert rate == 8000
        assert np.array_equal(values, read_wav(wav(8000, both), 1)[1])
        assert len(values) == 8000


@pytest.mark.parametrize("form", ["OGG", "MP3"])
def test_a_tone_survives(form: str) -> None:
    """A tone of 440 Hz has its peak there, and nearly its loudness."""
    tone = 0.5 * np.sin(2 * np.pi * 440 * np.arange(16_000) / 16_000)
    rate, values = read_sound(by_soundfile(tone, 16_000, form), 1)
    assert rate == 16_000
    spectrum = np.abs(np.fft.rfft(values[2000:14_000]))
    assert abs(spectrum.argmax() * rate / 12_000 - 440) < 2
    assert abs(np.sqrt((values[2000:14_000] ** 2).mean()) - 0.5 / np.sqrt(2)) < 0.02


def test_an_mp3_begins_with_a_tag_or_with_eleven_set_bits() -> None:
    content = by_soundfile(np.sin(np.arange(8000, dtype=np.float32) / 10), 8000, "MP3")
    tag = b"ID3\x04\x00\x00" + bytes([0, 0, 2, 44]) + bytes(300)  # seven bits a byte: 2·128 + 44
    rate, values = read_sound(content, 1)
    tagged_rate, tagged = read_sound(tag + content, 1)
    assert (rate, len(values)) == (tagged_rate, len(tagged)) == (8000, 8000)
    np.testing.assert_array_equal(tagged, values)
    for start in (b"ID3", b"\xff\xe0", b"\xff\xff"):
        with pytest.raises(ValueError, match="not a file of sound that libsndfile reads"):
            read_sound(start + bytes(50), 1)
    for start in (b"ID2", b"\xff\xdf", b"\xfe\xff", b"\xff"):
        with pytest.raises(ValueError, match="not a WAV file"):
            read_sound(start + bytes(50), 1)


def test_damaged_flac() -> None:
    sound = np.random.default_rng(0).integers(-(2**15), 2**15, 20_000).astype(np.int16)
    content = by_soundfile(sound, 8000, "FLAC")
    for damaged in (content[:200], content[: len(content) // 2], b"fLaC" + bytes(100)):
        with pytest.raises(ValueError, match=r"cut short|not a file of sound"):
            read_sound(damaged, 10)


def test_flac_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are those of the WAV file, and without soundfile there is a sentence."""
    sound = np.random.default_rng(0).integers(-(2**15), 2**15, 9000).astype(np.int16)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.flac").write_bytes(by_soundfile(sound, 8000, "FLAC"))
    source = open_source(str(tmp_path))
    assert (source.holds, source.ids) == ("sounds", ("a/1.flac",))
    rows = LogMel(2).prepare(source.read(0))
    assert np.array_equal(rows, LogMel(2).prepare(wav(8000, sound)))
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(UserError, match=r"a/1.flac needs soundfile; .*embedbench-cl\[audio\]"):
        open_source(str(tmp_path))
