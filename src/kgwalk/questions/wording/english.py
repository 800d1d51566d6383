"""Light English: plurals, articles, forms of verbs, and what kind of thing a noun names.

    plural("city"), past_of("write")               # "cities", "wrote"
    kind_of("place of birth"), asked("person")     # "place", "who"

Right for the words of relation names and for most others, by short tables and the rules of spelling. A kind is a plain
singular noun; "" is unknown.
"""

from __future__ import annotations

import re
from functools import cache


def word_set(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


_IRREGULAR_PLURALS = (
    "person:people child:children man:men woman:women foot:feet tooth:teeth mouse:mice wife:wives life:lives "
    "half:halves leaf:leaves shelf:shelves knife:knives wolf:wolves hero:heroes potato:potatoes "
    "tomato:tomatoes echo:echoes volcano:volcanoes phenomenon:phenomena criterion:criteria analysis:analyses "
    "basis:bases thesis:theses genus:genera taxon:taxa alumnus:alumni nucleus:nuclei medium:media datum:data "
    "index:indices grandchild:grandchildren crisis:crises axis:axes synopsis:synopses quiz:quizzes"
)
_PLURALS = dict(pair.split(":") for pair in _IRREGULAR_PLURALS.split())
_SINGULARS = {many: one for one, many in _PLURALS.items()} | {"kids": "kid", "movies": "movie", "cookies": "cookie"}
# The same in singular and plural, or not countable: no "how many" question is asked about these.
UNCOUNTED = word_set(
    "series species aircraft spacecraft software offspring headquarters news music information equipment "
    "staff literature cast crew personnel livestock physics mathematics politics economics art weather "
    "education gender population currency population nationality ethnicity cinematography money advice "
    "furniture research food progeny kin"
)
_SAME = word_set(
    "series species aircraft spacecraft offspring headquarters software personnel equipment staff livestock cast crew "
    "music literature"
)
# Singular, though they end in s.
_SINGULAR_S = word_set(
    "is was has does this as us its bus gas class address process status genus census campus corpus virus "
    "terminus focus bonus canvas atlas lens chess dress business princess actress boss loss pass access success "
    "congress progress mass glass grass cross press illness fitness diagnosis analysis basis thesis crisis "
    "axis hypothesis synopsis physics mathematics politics economics news always across plus versus thus "
    "perhaps whereabouts pancreas christmas alias ms"
)
_PLURAL_WORDS = frozenset(_PLURALS.values()) | {"those", "these", "they", "cattle", "police", "folk", "kin"}
_IRREGULAR = {  # base: past, participle
    "write": ("wrote", "written"), "make": ("made", "made"), "build": ("built", "built"), "win": ("won", "won"),
    "sing": ("sang", "sung"), "draw": ("drew", "drawn"), "lead": ("led", "led"), "hold": ("held", "held"),
    "give": ("gave", "given"), "know": ("knew", "known"), "speak": ("spoke", "spoken"), "see": ("saw", "seen"),
    "teach": ("taught", "taught"), "bear": ("bore", "born"), "set": ("set", "set"), "take": ("took", "taken"),
    "sell": ("sold", "sold"), "buy": ("bought", "bought"), "find": ("found", "found"), "fight": ("fought", "fought"),
    "become": ("became", "become"), "begin": ("began", "begun"), "run": ("ran", "run"), "eat": ("ate", "eaten"),
    "drive": ("drove", "driven"), "fly": ("flew", "flown"), "grow": ("grew", "grown"), "wear": ("wore", "worn"),
    "choose": ("chose", "chosen"), "break": ("broke", "broken"), "shoot": ("shot", "shot"), "cut": ("cut", "cut"),
    "put": ("put", "put"), "split": ("split", "split"), "bring": ("brought", "brought"), "keep": ("kept", "kept"),
    "leave": ("left", "left"), "lose": ("lost", "lost"), "meet": ("met", "met"), "pay": ("paid", "paid"),
    "say": ("said", "said"), "tell": ("told", "told"), "send": ("sent", "sent"), "spend": ("spent", "spent"),
    "stand": ("stood", "stood"), "swim": ("swam", "swum"), "throw": ("threw", "thrown"), "bind": ("bound", "bound"),
    "feed": ("fed", "fed"), "feel": ("felt", "felt"), "rise": ("rose", "risen"), "have": ("had", "had"),
    "be": ("was", "been"), "do": ("did", "done"), "go": ("went", "gone"), "lie": ("lay", "lain"),
    "lay": ("laid", "laid"), "underlie": ("underlay", "underlain"), "overlie": ("overlay", "overlain"),
    "come": ("came", "come"), "get": ("got", "got"), "hit": ("hit", "hit"), "read": ("read", "read"),
    "show": ("showed", "shown"), "steal": ("stole", "stolen"), "spin": ("spun", "spun"), "breed": ("bred", "bred"),
    "die": ("died", "died"), "tie": ("tied", "tied"),
    "forgive": ("forgave", "forgiven"), "sew": ("sewed", "sewn"), "weave": ("wove", "woven"),
    "hide": ("hid", "hidden"), "ride": ("rode", "ridden"), "shake": ("shook", "shaken"), "strike": ("struck", "struck"),
    "slay": ("slew", "slain"), "seek": ("sought", "sought"), "catch": ("caught", "caught"),
    "withdraw": ("withdrew", "withdrawn"), "understand": ("understood", "understood"),
}  # fmt: skip
_BASE_OF = {form: base for base, forms in _IRREGULAR.items() for form in forms}
_PAST_OF = {form: past for past, form in _IRREGULAR.values()}
PARTICIPLES = frozenset(form for _, form in _IRREGULAR.values() if form not in ("read", "set", "cut", "split", "hit"))
_IN_IE = word_set("belie die lie overlie tie underlie untie vie")  # their forms in "ies" and "ied" have no y
_VOWELS = "aeiou"


def plural(noun: str) -> str:
    """The plural of a noun or phrase: its last word changes, or in "place of birth" the word before "of".

    >>> plural("film"), plural("city"), plural("person"), plural("cause of death"), plural("tv series")
    ('films', 'cities', 'people', 'causes of death', 'tv series')
    """
    start, of, rest = noun.partition(" of ")
    words = start.split(" ")
    last = words[-1]
    if not is_plural(last) and last not in _SAME:
        words[-1] = _plural(last)
    return " ".join(words) + of + rest


@cache
def _plural(word: str) -> str:
    if word in _PLURALS:
        return _PLURALS[word]
    if re.search(r"(?:s|x|z|ch|sh)$", word):
        return word + "es"
    if word.endswith("child"):
        return word + "ren"
    if re.search(r"[^aeiou]y$", word):
        return word[:-1] + "ies"
    return word + "s"


@cache
def singular(noun: str) -> str:
    """
    >>> singular("films"), singular("countries spoken"), singular("children"), singular("address")
    ('film', 'countries spoken', 'child', 'address')
    """
    start, of, rest = noun.partition(" of ")
    words = start.split(" ")
    last = words[-1]
    if last in _SINGULARS:
        words[-1] = _SINGULARS[last]
    elif last.endswith("children"):
        words[-1] = last.removesuffix("ren")
    elif last.endswith("uses") and last[:-2] in _SINGULAR_S:
        words[-1] = last[:-2]
    elif is_plural(last):
        for end, other in (("ies", "y"), ("sses", "ss"), ("shes", "sh"), ("ches", "ch"), ("xes", "x"), ("s", "")):
            if last.endswith(end):
                words[-1] = last[: -len(end)] + other
                break
    return " ".join(words) + of + rest


@cache
def is_plural(word: str) -> bool:
    """
    >>> [is_plural(word) for word in ("films", "people", "address", "series", "film", "headquarters")]
    [True, True, False, False, False, False]
    """
    low = word.lower()
    if low in _PLURAL_WORDS or low.endswith("children"):
        return True
    return low.endswith("s") and not low.endswith(("ss", "us", "is", "'s")) and low not in _SINGULAR_S | _SAME


def a(noun: str) -> str:
    """
    >>> a("film"), a("award"), a("university"), a("hour")
    ('a film', 'an award', 'a university', 'an hour')
    """
    low = noun.lower()
    sounds_consonant = re.match(r"(?:uni(?!n)|eu|use|usu|uk|one|ubi|uti)", low) is not None
    vowel = (low[:1] in _VOWELS and not sounds_consonant) or low.startswith(("hour", "honour", "honor", "heir"))
    return f"an {noun}" if vowel else f"a {noun}"


def is_participle(word: str) -> bool:
    """
    >>> [is_participle(word) for word in ("directed", "written", "red", "need", "born", "capital")]
    [True, True, False, False, True, False]
    """
    return word in PARTICIPLES or (word.endswith("ed") and len(word) > 4 and not word.endswith("eed"))


def base(form: str) -> str:
    """The verb as it stands after "did", from its past, participle or third person.

    >>> [base(form) for form in ("directed", "written", "produced", "carries", "treats", "married", "planned", "uses")]
    ['direct', 'write', 'produce', 'carry', 'treat', 'marry', 'plan', 'use']
    >>> [base(form) for form in ("relies", "lies", "focuses", "undergoes", "underlies", "vies", "belied")]
    ['rely', 'lie', 'focus', 'undergo', 'underlie', 'vie', 'belie']
    """
    if form in _BASE_OF:
        return _BASE_OF[form]
    if form in ("has", "is", "focuses"):
        return {"has": "have", "is": "be", "focuses": "focus"}[form]
    if form[:-1] in _IN_IE:
        return form[:-1]
    if form.endswith(("ied", "ies")):
        return form[:-3] + "y"
    if form.endswith("ed"):
        return _with_e(form[:-2])
    if re.search(r"(?:ss|sh|ch|x|zz|o)es$", form):
        return form[:-2]
    return form[:-1] if form.endswith("s") and not form.endswith("ss") else form


# Stems of regular pasts whose base ends in a silent e: "produc", "creat", "includ"; where the ending alone does not
# tell ("cit" of cited, "edit" of edited) the stems themselves.
_SILENT_E = re.compile(
    r"(?:[cvzu]|[^s]s|[^n]g|(?:ch|rr)ang|[^eo]at|creat|[bcdfgkptz]l|[^ao]id|ud|[^eo]ad|od|[^e]ed|[^a]ir|[^eo]ar|[^o]ur|[^ao]in"
    r"|(?:^|[^eo])[aio]k|[^aeo][aiu]m|welcom|[^o]ut|rib|(?:shap|escap|typ|scop|hop)|(?:scor|stor|explor|ignor|ador)"
    r"|(?:^|re|ex)cit|invit|unit|ignit|complet|compet|delet|[vmn]ot|quot|(?:compil|fil|rul|styl|schedul)|tun|postpon)$"
)


def _with_e(stem: str) -> str:
    """`produc` is "produce", `plann` is "plan", `direct` stays."""
    if re.search(r"([bdgmnprt])\1$", stem) and not stem.endswith("add"):
        return stem[:-1]
    if stem in ("focus", "debut", "program", "plead"):
        return stem
    return stem + "e" if _SILENT_E.search(stem) else stem


def past(participle: str) -> str:
    """The past of a participle: "wrote" of "written"; most are the same."""
    return _PAST_OF.get(participle, participle)


def past_of(verb: str) -> str:
    """The past of a verb's base.

    >>> past_of("make"), past_of("express"), past_of("use"), past_of("carry"), past_of("rally"), past_of("ban")
    ('made', 'expressed', 'used', 'carried', 'rallied', 'banned')
    """
    if verb in _IRREGULAR:
        return _IRREGULAR[verb][0]
    if verb.endswith("e"):
        return verb + "d"
    if re.search(r"[^aeiou]y$", verb):
        return verb[:-1] + "ied"
    if re.fullmatch(r"[^aeiou]*[aeiou][bdgmnpt]", verb) or verb in ("expel", "star", "occur", "confer"):
        return f"{verb}{verb[-1]}ed"
    return verb + "ed"


def third(verb: str) -> str:
    """
    >>> third("carry"), third("pass"), third("border"), third("have")
    ('carries', 'passes', 'borders', 'has')
    """
    if verb in ("have", "be", "do", "go"):
        return {"have": "has", "be": "is", "do": "does", "go": "goes"}[verb]
    return _plural(verb) if verb not in _PLURALS else verb + "s"


# Kinds of nouns


PERSON, PLACE, DATE, YEAR, NUMBER, TEXT = "person", "place", "date", "year", "number", "text"
VALUES = (DATE, YEAR, NUMBER, TEXT)
# Kinds that tell a reader nothing: "ones" or "what" is written instead.
VAGUE = frozenset({"", "thing", "agent", "object", "item", "entity", "topic", "node", "work", "subject", "concept"})

_PEOPLE = word_set(
    "actor actress artist athlete author candidate celebrity character chairperson champion child citizen "
    "coach cofounder colleague commander composer conductor creator crewmember daughter dad descendant "
    "designer developer director discoverer doctor driver editor employee father founder friend grandchild "
    "grandparent governor guardian heir host husband inhabitant inventor investigator king kid leader "
    "lyricist manager mayor member minister mom mother musician narrator neighbour nominee officeholder "
    "officer official owner painter parent participant partner performer person player poet politician "
    "president producer professor queen relative representative resident ruler scientist screenwriter "
    "secretary sibling singer sister brother son spouse star student successor predecessor supervisor teacher "
    "victim voice winner wife writer advisor adviser astronaut athlete cinematographer instrumentalist "
    "graduate inductee vacationer impressionist lyricist monarch pilot politician prisoner staff combatant "
    "contributor builder architect choreographer sculptor ambassador ancestor boyfriend girlfriend fiance "
    "lover mentor pupil rival rector laureate people personnel crew cast parents offspring customer patient tenant "
    "landlord guest borrower lawyer salesperson assignee reporter requester buyer boss "
    "programmer researcher inspector viewer"
) - {"developer", "owner", "manufacturer", "character"}
_PLACES = word_set(
    "place location birthplace city town village country state province region county district area residence "
    "hometown headquarters address continent territory settlement venue destination neighbourhood "
    "municipality island capital origin"
)
_TIMES = word_set("date day birthday time founded inception born died established")
_NUMBERS = word_set(
    "number count population height length width weight mass area age amount elevation depth distance salary "
    "price cost budget revenue income rating score votes gdp temperature capacity duration size runtime "
    "latitude longitude percentage rate volume speed density value total quantity goals pages elo wins losses"
)


def kind_of(noun: str) -> str:
    """The kind that a relation's noun leads to, by its head word: "place" in "place of birth" and in "birth place".

    >>> [kind_of(noun) for noun in ("director", "children", "place of birth", "release year", "population", "language")]
    ['person', 'person', 'place', 'year', 'number', 'language']
    """
    head = noun.split(" of ")[0].split(" ")[-1]
    one = singular(head)
    if one in _PEOPLE or head in _PEOPLE:
        return PERSON
    if one == "year":
        return YEAR
    if one in _TIMES:
        return DATE
    if one in _NUMBERS or head in _NUMBERS:
        return NUMBER
    if one in ("city", "country", "state", "county", "continent", "island", "village", "town", "province"):
        return one
    return PLACE if one in _PLACES else singular(noun.split(" of ")[0])


def is_person(kind: str) -> bool:
    """
    >>> is_person("player"), is_person("racing driver"), is_person("film"), is_person("")
    (True, True, False, False)
    """
    return kind == PERSON or (kind.split(" ")[-1] in _PEOPLE and kind != "star") or kind == "saint"


def is_place(kind: str) -> bool:
    return kind in _PLACES


def asked(kind: str) -> str:
    """The word that asks for a kind by itself.

    >>> asked("person"), asked("film"), asked("date"), asked("city")
    ('who', 'what', 'when', 'what')
    """
    if is_person(kind):
        return "who"
    return "when" if kind == DATE else "what"


def several(kind: str) -> str:
    """The plural of a kind, or "ones" where it tells nothing.

    >>> several("person"), several("thing"), several("city")
    ('people', 'ones', 'cities')
    """
    return "ones" if kind in VAGUE else plural(kind)
