"""What a file holds by its first bytes: an image or a sound that is read here, or neither.

Only formats of `source.FORMATS`, and sounds that `sound_files` reads, are told from each other.
"""

import re

IMAGES, SOUNDS = "images", "sounds"
HEAD = 64  # bytes that are looked at
_BITMAP_HEADERS = (12, 40, 52, 56, 64, 108, 124)  # sizes of a BMP's second header
_OGG_CODECS = (b"\x01vorbis", b"OpusHead", b"\x7fFLAC", b"Speex   ")  # and not of video


def content_kind(head: bytes, suffix: str) -> str:
    """Return `images` or `sounds` for the first `HEAD` bytes of a file; empty: neither.

    TIFF counts only without a suffix: a camera's raw file and a microscope's slide are TIFF, too,
    and what Pillow reads of them is a preview.

    >>> content_kind(b"\\xff\\xd8\\xff\\xe0\\0\\x10JFIF", ".jfif"), content_kind(b"II*\\0", ".nef")
    ('images', '')
    """
    if _is_image(head) or (head[:4] in (b"II*\0", b"MM\0*") and not suffix):
        return IMAGES
    return SOUNDS if _is_sound(head) else ""


def _is_image(head: bytes) -> bool:
    if head.startswith((b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a")):
        return True
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return True
    if head[:2] == b"BM":  # which may begin a text
        return int.from_bytes(head[14:18], "little") in _BITMAP_HEADERS
    return re.match(rb"P[456]\s+[\d#]", head) is not None  # PPM, PGM and PBM, not as text


def _is_sound(head: bytes) -> bool:
    form = head[8:12]
    if head[:4] in (b"RIFF", b"RIFX", b"RF64"):
        return form == b"WAVE"
    if head[:4] == b"FORM":
        return form in (b"AIFF", b"AIFC")
    if head[:4] == b"OggS":
        return any(codec in head for codec in _OGG_CODECS)
    if head[:4] == b".snd":  # AU; its header has six numbers of four bytes
        return 24 <= int.from_bytes(head[4:8], "big") < 2**16
    return head.startswith((b"fLaC", b"ID3")) or _is_mpeg_frame(head)


def _is_mpeg_frame(head: bytes) -> bool:
    """Whether bytes begin a frame of MPEG layer II or III; a text in UTF-16 begins much alike."""
    if len(head) < 4 or head[0] != 0xFF or head[1] < 0xE0:
        return False
    version = head[1] >> 3 & 3
    layer = head[1] >> 1 & 3
    bit_rate = head[2] >> 4
    sample_rate = head[2] >> 2 & 3
    return version != 1 and layer in (1, 2) and 0 < bit_rate < 15 and sample_rate != 3
