"""``python -m benchmarks.report``: write ``report.md`` and ``report.pdf``."""

from __future__ import annotations

import argparse
import io
import re
from pathlib import Path
from typing import Any

from benchmarks.report.numbers import RESULTS, ROOT, numbers

TEXT = Path(__file__).parent / "report.md"


def build(results: Path = RESULTS) -> str:
    """The report in Markdown, with paths of pictures."""
    text = TEXT.read_text().format_map(numbers(results))
    return re.sub(r"!\[\]\((.*)\)", lambda link: f"![]({(TEXT.parent / link[1]).resolve()})", text)


def write_pdf(text: str, path: Path) -> None:
    """Write a text in Markdown as PDF, A4."""
    import markdown
    from fpdf import FPDF, FontFace, TextStyle

    class Pages(FPDF):  # type: ignore[misc]  # the library is optional
        def footer(self) -> None:
            self.set_y(-15)
            self.set_font("times", size=9)
            self.cell(0, 10, str(self.page_no()), align="C")

    pdf = Pages(format="A4")
    pdf.set_margins(25, 22)
    pdf.set_auto_page_break(auto=True, margin=22)
    pdf.set_title(text.splitlines()[0].removeprefix("# "))
    pdf.add_page()
    title, heading = (TextStyle("times", "B", size, t_margin=4, b_margin=2) for size in (17, 13))
    styles = {"h1": title, "h2": heading, "code": FontFace("courier", size_pt=10)}
    # Pictures and tables are not left to the writer of HTML, which takes no SVG and no alignment.
    for part in re.split(r"(?m)^(!\[\]\([^)]*\)|(?:\|.*\n)+)", text):
        pdf.set_font("times", size=11)
        if part.startswith("!["):
            picture = Path(part[4:-1]).read_text().replace("\u2212", "-")  # no font here has it
            pdf.image(io.BytesIO(picture.encode()), w=pdf.epw)
        elif part.startswith("|"):
            _write_table(
                pdf,
                [line.strip("| ").replace("\\*", "*").split(" | ") for line in part.splitlines()],
            )
        else:
            html = markdown.markdown(part).replace("<p>", '<p line-height="1.35">')
            pdf.write_html(html, tag_styles=styles)
        pdf.ln(1)
    pdf.output(str(path))


def _write_table(pdf: Any, lines: list[list[str]]) -> None:
    head, _, *rows = lines
    rows = [row + [""] * (len(head) - len(row)) for row in rows]
    pdf.set_font("times", size=9)
    columns = list(zip(*rows, strict=True))
    words = [max(head[i].split(), key=len) for i in range(len(head))]  # heads are broken
    widths = [
        max(pdf.get_string_width(text) for text in (word, *column)) + 4
        for word, column in zip(words, columns, strict=True)
    ]
    width = min(sum(widths), pdf.epw)
    align = ["LEFT" if i == 0 or head[i] == "game" else "RIGHT" for i in range(len(head))]
    with pdf.table(
        borders_layout="SINGLE_TOP_LINE",
        col_widths=widths,
        line_height=4.5,
        text_align=align,
        width=width,
    ) as table:
        for row in (head, *rows):
            table.row(row)


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "report")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    text = build()
    (out / "report.md").write_text(text)
    write_pdf(text, out / "report.pdf")
    print(f"wrote {out / 'report.md'} and {out / 'report.pdf'}")


if __name__ == "__main__":
    main()
