"""The backbone log-mel: sounds to log-mel frames, one per second, concatenated.

**Source** Kemker et al. (2018), "Datasets": ten 128-dimensional vectors, one per second of sound,
concatenated in order; in the paper they are AudioSet's VGGish embeddings. Here they are the input
features of VGGish (Hershey et al. 2017; Gemmeke et al. 2017): sound at 16 kHz, windows of 25 ms
(periodic Hann) every 10 ms, magnitudes of their Fourier transform, triangles on the HTK mel scale
from 125 to 7,500 Hz, log(x + 0.01).

**Departs** 128 bands instead of VGGish's 64, so that the vectors have the paper's width. Windows
are padded to 2,048 samples instead of 512, because some of the 128 triangles are narrower than the
31 Hz between the bins of 512. No network follows; a frame is the mean of the 98 windows that lie
entirely within its second.
"""

import math

import numpy as np
import torch
from scipy.fft import rfft
from scipy.signal import get_window, resample_poly
from scipy.sparse import csr_array

from embedbench.array_types import Array, Float32s, Floats

from .backbone import Backbone
from .sound_files import read_sound
from .source import Content

RATE = 16_000
WINDOW, HOP, PADDED = 400, 160, 2_048  # samples
BANDS, LOWEST, HIGHEST = 128, 125.0, 7_500.0
FLOOR = 0.01


class LogMel(Backbone):
    """Log-mel frames of sounds, one per second.

    Parameters
    ----------
    seconds : int
        Seconds used of a sound, from its start: longer sounds are cut, shorter ones padded with
        silence. The paper's clips have 10.
    """

    SECONDS = 10
    takes = "sounds"

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds
        self.window = get_window("hann", WINDOW).astype(np.float32)  # periodic
        # no BLAS, so that a row's bits do not depend on the batch
        self.filters = csr_array(mel_filters().T)
        self.backbone = {
            "name": "log-mel",
            "library": "embedbench",
            **dict.fromkeys(("library_version", "weights_id", "weights_sha256"), ""),
            "layer": "log-mel spectrogram",
            "pooling": "mean of the windows within a second",
        }
        self.preprocessing = {
            "channels": "mean",
            "rate": RATE,
            "resampling": "scipy.signal.resample_poly",
            "seconds": seconds,
            "shorter": "silence at the end",
            "window": f"periodic Hann, {WINDOW} samples every {HOP}, padded to {PADDED}",
            "spectrum": "magnitude",
            "bands": BANDS,
            "mel": f"HTK, {LOWEST:g} to {HIGHEST:g} Hz, triangles of height 1",
            "log": f"log(x + {FLOOR})",
            "layout": "second by second",
        }

    def prepare(self, content: Content) -> Float32s:
        """Return the (seconds · 128,) frames of a file of sound."""
        return self.frames(*read_sound(content, self.seconds + 1))

    def frames(self, rate: int, sound: Float32s) -> Float32s:
        """Return the (seconds · 128,) frames of a sound (n,) with values between -1 and 1."""
        # one second more, so that resampling does not change the end
        sound = resample(rate, sound[: (self.seconds + 1) * rate], RATE)
        whole = np.zeros(self.seconds * RATE, np.float32)
        sound = sound[: len(whole)]
        whole[: len(sound)] = sound
        seconds = whole.reshape(self.seconds, RATE)
        windows = np.lib.stride_tricks.sliding_window_view(seconds, WINDOW, axis=1)[:, ::HOP]
        spectrum = np.abs(rfft(windows * self.window, PADDED)).reshape(-1, PADDED // 2 + 1)
        bands = (self.filters @ spectrum.T).T  # (128, 1025) @ (1025, seconds · 98)
        logs = np.log(bands + np.float32(FLOOR)).reshape(self.seconds, -1, BANDS)
        return np.asarray(logs.mean(axis=1).ravel())

    def forward(self, batch: Float32s) -> dict[str, torch.Tensor]:
        """Return the frames, which `prepare` has computed."""
        return {"features": torch.from_numpy(batch)}


def resample(rate: int, sound: Float32s, to: int) -> Float32s:
    """Return a sound (n,) of one rate at another one."""
    if rate == to:
        return sound
    common = math.gcd(rate, to)
    out: Float32s = resample_poly(sound, to // common, rate // common)
    return out


def mel(hertz: Array) -> Floats:
    """Return frequencies on HTK's mel scale, on which 1,000 Hz are 1,000.

    >>> mel(np.array([0.0, 1000.0])).round(1)
    array([   0., 1000.])
    """
    return np.asarray(1127 * np.log1p(hertz / 700))


def mel_filters() -> Float32s:
    """Return the (1025, 128) weights of Fourier bins in mel bands.

    The corners of the bands are evenly spaced on the mel scale. A triangle begins and ends at the
    tops of its neighbours, and is linear on the mel scale.
    """
    bins = mel(np.fft.rfftfreq(PADDED, 1 / RATE))[:, None]  # (1025, 1)
    lowest, highest = mel(np.array([LOWEST, HIGHEST])).tolist()
    corners = np.linspace(lowest, highest, BANDS + 2)
    below, top, above = corners[:-2], corners[1:-1], corners[2:]  # (128,)
    rising = (bins - below) / (top - below)
    falling = (above - bins) / (above - top)
    weights: Float32s = np.maximum(0, np.minimum(rising, falling)).astype(np.float32)
    return weights
