"""A language model as judge: cases in, verdicts out, in a form that the judged text cannot forge."""
