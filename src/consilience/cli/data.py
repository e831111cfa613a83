"""What data there are."""

from consilience.cli.common_options import console


def datasets() -> None:
    """List the datasets: what they are, their licence, and where they come from."""
    from consilience.data.catalogue import CATALOGUE, how_to_get
    from consilience.report.tables import Grid

    rows = [(name, entry.what, entry.licence, how_to_get(entry)) for name, entry in CATALOGUE.items()]
    console.print(Grid("Datasets", ("name", "what", "licence", "where"), rows, words=4))
