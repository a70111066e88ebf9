"""``python -m benchmarks.report``: write ``report.md`` and ``report.pdf``."""

from __future__ import annotations

import argparse
import io
import re
from pathlib import Path
from typing import Any

from benchmarks.report.numbers import RESULTS, ROOT, numbers

TEXT = Path(__file__).parent / "report.md"

#: Room for a heading with two lines below it, for the caption of a table, and for one of its lines.
HEADING_MM, CAPTION_MM, LINE_MM = 25, 18, 4.5


def build(results: Path = RESULTS) -> str:
    """The report in Markdown, with paths of pictures."""
    text = TEXT.read_text().format_map(numbers(results))
    return re.sub(r"!\[\]\((.*)\)", lambda link: f"![]({(TEXT.parent / link[1]).resolve()})", text)


def write_pdf(text: str, path: Path) -> None:
    """Write a text in Markdown as PDF, A4."""
    import markdown
    from fpdf import FPDF, FontFace, TextStyle

    def footer(pdf: Any) -> None:
        pdf.set_y(-15)
        pdf.set_font("times", size=9)
        pdf.cell(0, 10, str(pdf.page_no()), align="C")

    # Called by the library at the end of a page.
    pdf: Any = type("Pages", (FPDF,), {"footer": footer})(format="A4")
    pdf.set_margins(25, 22)
    pdf.set_auto_page_break(auto=True, margin=22)
    pdf.set_title(text.splitlines()[0].removeprefix("# "))
    pdf.add_page()
    title, heading = (TextStyle("times", "B", size, t_margin=4, b_margin=0.6) for size in (17, 13))
    styles = {"h1": title, "h2": heading, "code": FontFace("courier", size_pt=10)}
    # Pictures and tables are not left to the writer of HTML, which takes no SVG and no alignment;
    # headings are parts, so that none is the last line of a page.
    for part in re.split(r"(?m)^(!\[\]\([^)]*\)|(?:\|.*\n)+|(?=## ))", text):
        pdf.set_font("times", size=11)
        if part is None or not part.strip():
            continue
        if part.startswith("!["):
            picture = Path(part[4:-1]).read_text().replace("\u2212", "-")  # no font here has it
            picture = re.sub(r"<metadata>.*</metadata>", "", picture, flags=re.DOTALL)
            pdf.ln(2)
            pdf.image(io.BytesIO(picture.encode()), w=pdf.epw)
        elif part.startswith("|"):
            _write_table(
                pdf,
                [line.strip("| ").replace("\\*", "*").split(" | ") for line in part.splitlines()],
            )
        else:
            appendix = part.startswith("## Appendix")
            if appendix or (part.startswith("#") and pdf.will_page_break(HEADING_MM)):
                pdf.add_page()
            html = re.sub("<(p|ul)>", r'<\1 line-height="1.35">', markdown.markdown(part))
            pdf.write_html(html.replace(">\n<", "><"), tag_styles=styles, li_prefix_color="black")
        pdf.ln(1)
    pdf.output(str(path))


def _write_table(pdf: Any, lines: list[list[str]]) -> None:
    head, _, *rows = lines
    rows = [row + [""] * (len(head) - len(row)) for row in rows]
    pdf.set_font("times", size=9)
    columns = list(zip(*rows, strict=True))
    words = [max(title.split(), key=len, default="") for title in head]  # heads are broken
    widths = [
        max(pdf.get_string_width(text) for text in (word, *column)) + 4
        for word, column in zip(words, columns, strict=True)
    ]
    width = min(sum(widths), pdf.epw)
    pdf.ln(2)
    if pdf.will_page_break(LINE_MM * (len(rows) + 4) + CAPTION_MM):
        pdf.add_page()
    align = ["LEFT" if i == 0 or head[i] == "game" else "RIGHT" for i in range(len(head))]
    with pdf.table(
        borders_layout="SINGLE_TOP_LINE",
        col_widths=widths,
        line_height=LINE_MM,
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
