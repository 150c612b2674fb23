"""What `--normalise channel` measures, on the training images alone."""

import numpy as np

from embedbench.files.sample_metadata import TRAIN

from .channel_statistics import LEVELS, ChannelScale
from .extraction_work import Job, decode, first_image, quiet_readers
from .open_backbone import Images
from .source import Source, unusable


def measure_channels(job: Job, source: Source) -> ChannelScale:
    """Mean and deviation of each channel over the training images of a source with a split.

    Raises
    ------
    UserError
        An image cannot be read, and the job does not leave such images out.
    """
    assert source.split is not None
    images = Images(first_image(source, job.policy), job.size)
    counts = np.zeros((1 if images.mode == "L" else 3, LEVELS), np.int64)
    with quiet_readers():
        for i in np.flatnonzero(source.split == TRAIN).tolist():
            sample = decode(source, i, images, job.policy)
            if sample.ready is not None:
                for c in range(len(counts)):
                    counts[c] += np.bincount(sample.ready[..., c].ravel(), minlength=LEVELS)
            elif not job.skip_bad:
                raise unusable(source.ids[i], source.name, sample.problem)
    return ChannelScale.measured(counts)
