from sglang.srt.note import A, Note


class Late:
    finish_backend: A[str, Note(help="x", choices=["mattefinish", "glossfinish"])] = "mattefinish"
