"""Rows as a data frame of pandas, which is asked for here alone."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from embedbench.errors import UserError

if TYPE_CHECKING:
    import pandas


def data_frame(rows: Sequence[Mapping[str, Any]]) -> "pandas.DataFrame":
    """Rows as a data frame; a value that a row does not have is missing.

    Raises
    ------
    UserError
        pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError:
        raise UserError(
            "to_pandas needs pandas",
            "pip install 'embedbench-cl[pandas]'; rows() needs nothing",
        ) from None
    return pd.DataFrame.from_records(rows)
