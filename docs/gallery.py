"""Makes docs/results/gallery/ and docs/results/gallery.md: figures as the program draws them, and the commands.

python docs/gallery.py        some 65 short runs, about five minutes on two cores
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from consilience.report.run_index import curves, named_standings

FIGURES = {
    "compare": (
        "Which method is the best?",
        "Large dots are means over seeds with 95 % intervals, small ones single seeds.",
        "compare digits-mlp --methods consensus,paper,naive,fedavg,alone --seeds 0-2 --set rounds=12",
    ),
    "rounds": ("How do the scores develop?", "The runs of the same comparison: thin lines are single seeds.", ""),
    "sweep": (
        "Which setting is the best?",
        "The weight of the pseudo-labels against the passes over the private data per round; intervals are over seeds.",
        "compare digits-mlp --methods consensus --grid lam=0.1,0.5,1 --grid epochs=1,5 --seeds 0-2 --set rounds=12",
    ),
    "robustness": (
        "How many attackers does a trust rule bear?",
        "The score of the honest agents against the number of attackers, for each attack.",
        "robustness digits-mlp --attacks collusion,echo --rules stratified,entropy,median --attackers 2,4 --seeds 0-2 "
        "--set rounds=12",
    ),
}
"""By name of the figure: a heading, what is seen, and the command whose folder holds the figure."""


def main() -> None:
    """Runs the commands in a scratch folder and writes the page beside its figures."""
    page = Path(__file__).parent / "results" / "gallery.md"
    about = "For everybody who wants to see what the program draws. You will know which command draws it."
    parts = [f"# Gallery\n\n{about}"]
    with tempfile.TemporaryDirectory() as scratch:
        for name, (heading, seen, words) in FIGURES.items():
            folder = Path(scratch) / (name if words else "compare")
            if words:
                subprocess.run([sys.executable, "-m", "consilience", *words.split(), "--out", str(folder)], check=True)
                image = (folder / f"{name}.svg").read_text()
            else:
                [image] = curves(named_standings(folder, {"paper": "consensus (paper)", "fedavg": "FedAvg"})).values()
            (page.parent / page.stem / f"{name}.svg").write_text(image)
            command = f"\n\n```\nconsilience {words}\n```" if words else ""
            parts.append(f"## {heading}\n\n{seen}\n\n![{heading}]({page.stem}/{name}.svg){command}")
    page.write_text("\n\n".join(parts) + "\n\nThis page is made by `python docs/gallery.py`.\n")


if __name__ == "__main__":
    main()
