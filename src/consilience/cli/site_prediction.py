"""The commands of a site whose run is finished: predict with its model, alone or together, and answer peers."""

from pathlib import Path
from typing import Annotated

import typer

from consilience.cli.common_options import console
from consilience.cli.models import For, PredictionsFile, Samples, Sets, sets_for, write_predictions
from consilience.cli.site import SiteFile, print_of, print_plain


def predict(
    samples: Samples,
    site_file: SiteFile = Path("site.toml"),
    collective: Annotated[
        bool, typer.Option("--collective", help="Ask the peers who answer as well. They see these samples.")
    ] = False,
    out: PredictionsFile = Path("predictions.csv"),
    at: For = "",
    sets: Sets = 0.0,
) -> None:
    """Predict with the model that this site's part in a federation has improved.

    By default it is the home model, for the site's own domain; --for target is for elsewhere.

    With --collective the site sends the samples to its peers, who answer if they run `consilience site answer`, and
    mixes all predictions by its trust. The columns part_NAME say how far each one counts.

    Examples:

      consilience site predict new-patients.csv

      consilience site predict new-patients.csv --sets 0.9

      consilience site predict new-patients.csv --site site.toml --collective
    """
    with console.status("Predicting ..."):
        if collective:
            from consilience.federation.remote_prediction_client import ask_peers
            from consilience.federation.site import load_site

            loaded = load_site(site_file)
            answers = ask_peers(loaded, samples, print_plain)
            write_predictions(answers.predictions, loaded.federation.classes, out, answers)
        else:
            from consilience.federation.model import predict_site

            f, names, calibration = predict_site(site_file, samples, at)
            write_predictions(f, names, out, sets=sets_for(calibration, f, at or "home", sets))
    print_plain(f"Written: {out}")


def answer(
    site_file: SiteFile = Path("site.toml"),
) -> None:
    """Answer peers who ask for this site's predictions (`consilience site predict --collective`).

    It runs until Ctrl-C, after `consilience site run` has finished. `answer_to` and `answer_rows` in site.toml say
    whom and how much. answered.jsonl in the run folder is the log of what left the site.
    """
    with console.status("Loading ..."):
        from consilience.federation.remote_prediction_server import answer_peers
        from consilience.federation.site import load_site

        loaded = load_site(site_file)
    say = print_of(loaded.site.agent)
    try:
        answer_peers(loaded, say)
    except KeyboardInterrupt:
        say("stopped answering")
