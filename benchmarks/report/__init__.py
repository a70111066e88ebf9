"""Build the report: report.md with the numbers of the records, as Markdown and as PDF.

    python -m benchmarks.report --out build/report

The text is ``report.md`` in this folder; every ``{name}`` in it is a value of
`benchmarks.report.numbers`, which reads ``benchmarks/results``. The PDF needs fpdf2 and Markdown,
which the extra ``docs`` brings.
"""
