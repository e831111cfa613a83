"""A model folder that unpacks to too much is refused."""

import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from sklearn.linear_model import LogisticRegression

from consilience.base.errors import ConsilienceError
from consilience.export.folder import load_model
from tests.export.conftest import X, Y, reseal, with_estimator


def test_a_file_that_unpacks_to_too_much_is_refused(trained: dict[str, Any], tmp_path: Path) -> None:
    folder, out = with_estimator(trained, tmp_path / "m", LogisticRegression().fit(X, Y)), BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        new.writestr("schema.json", b" " * 200_000_000)
    (folder / "estimator-0.skops").write_bytes(out.getvalue())
    reseal(folder)
    with pytest.raises(ConsilienceError, match="would be unpacked"):
        load_model(folder)
