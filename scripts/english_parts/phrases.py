"""Words and turns of phrase that make a reader read twice, and what to say instead.

Nobody writes `WORST`: tests/test_english.py fails on each of them. `STILTED` is cruder. It finds most stilted sentences and
some plain ones, so use it to count and to look through a folder, not to forbid.
"""

from __future__ import annotations

import re

_ORDERED = "(?:log|offset|sequence|batch|record|epoch|marker|gap|end|start|window)"

WORST = {
    r"\banew\b": "say 'again', or 'new'",
    r"(?<!here )\b(?:is|are|was|were) (?:no|none)(?! longer\b| more\b)\b": "say 'is not a', or what it is",
    r"\b(?:is|are|was|were) (?:said|told)\b(?! to\b)": "name who reports it: 'X reports', 'X returns'",
    r"\b(?:is|are|was|were) left of\b": "say 'the remaining …'",
    r"\b(?:comes?|came|become|becomes|became) of (?:it|that|them|a|an|the|each|which|this|such)\b": "say 'the result of'",
    r"\b[Tt]hat which\b": "name the thing",
    r"^Of (?:an?|the|each|this|those|all) [\w`]+(?: [\w`]+)? (?:so|the|only|what|that|is|are|has)\b": "start with the subject",
    r"^Whether\b.*\b(?:is|are) (?:said|told|known)\b": "begin with the subject",
    rf"\b(?:{_ORDERED}s?|time|it|them|that|these) behind\b": "say 'after' for order in time or offset",
    rf"\bbehind (?:the (?:{_ORDERED}|last|first|next)|it|that|them)\b": "say 'after' for order in time or offset",
    r"\bcomes? to (?:nothing|be|it)\b|\bc[ao]mes? to\.?$": "say 'the result is'",
    r"\bbut for\b": "say 'except'",
    r"\bas ever\b": "say 'as always', or leave it out",
    r"\bsettl(?:e|es|ed|ing)\b": "say what is done: commit, write, resolve, wait until quiet",
    r"\bshort way\b": "say 'fast path'",
}

STILTED = (
    *WORST,
    # a clause in place of a subject, or the object before the subject
    r"^(?:What|Whatever|Whoever|Whose|Whom|That which|Of what|Who)\b(?!.*\?$)",
    r"^(?:Of|By|Behind|Beside|Under) (?:[\w`'-]+ ){1,4}"
    r"(?:is|are|was|were|has|have|goes|comes|stands|only|so|what|it|they|that|those|the)\b",
    # a clause in place of an object
    r"\b(?:of|to|in|for|by|from|with|at|on|but|is|are|than|about|after|before) what\b",
    r"\b(?:of|to|in|for|by|from|than|behind) (?:those|these|that) (?:is|are|was|were|has|have|who|which|that|it)\b",
    r"\bwhat (?:it|they|one|others|came|comes|became|becomes|goes|stands|was|were)\b",
    # an actor without a name
    r"\b(?:whatever|whoever|whom|anybody|nobody|everybody)\b",
    r"\b(?:be|been|being|is|are|was|were|still|also|only) (?:said|told|asked|heard|meant)\b",
    r"\b(?:those|that) (?:who|which|whose|that (?!is\b))",
    # a sentence without a verb, or with its verb left out
    r"^So (?:with|is|are|does|do|has|have)\b",
    r"\b(?:made|done|taken|read|written|sent|kept|moved) or none\b",
    # an ending that makes the reader look for the word
    r"\b(?:of|behind|beside) (?:it|that|them|this|those|these|which)[.;:]?$",
    # a plain word in place of the field's term
    r"\b(?:behind|meanwhile|befalls?|befell|hears?|heard|thereby|whereby)\b",
    r"\bcom(?:e|es|ing) (?:of|to)\b|\bcame (?:of|to)\b|\bgoes by\b|\bstands? so\b",
    r"\bso (?:many|much)\b",
    r", (?:of|in|by|from|for|to|at) (?:which|whom)\b",
)

WORST_PATTERNS = {re.compile(pattern): better for pattern, better in WORST.items()}
STILTED_PATTERN = re.compile("|".join(f"(?:{pattern})" for pattern in STILTED))


def is_stilted(text: str) -> bool:
    """Whether a sentence is likely to be one that must be read twice."""
    return STILTED_PATTERN.search(text) is not None


def worst_of(text: str) -> list[tuple[str, str]]:
    """The worst words of a sentence, each with advice."""
    return [(match[0], better) for pattern, better in WORST_PATTERNS.items() if (match := pattern.search(text))]
