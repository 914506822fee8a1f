"""`python -m pictures` writes the pictures of docs/architecture.md."""

from pathlib import Path

from pictures import call, layers

DOCS = Path(__file__).parents[1] / "docs"
PICTURES = {"architecture-layers.svg": layers.drawn, "architecture-call.svg": call.drawn}


def main() -> None:
    for name, drawn in PICTURES.items():
        (DOCS / name).write_text(drawn(), encoding="utf-8")


if __name__ == "__main__":
    main()
