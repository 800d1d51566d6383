"""Other forms of a word or name: singular and plural, the people of a country, other names, common words.

    singular_name("disc brakes"), plural_name("gas")    "disc brake", "gases"
    other_names("italian"), other_names("uk")           ["italy"], ["united kingdom", "great britain", "britain"]

A question says "French suppliers" where the graph has France, and "disc brakes" where it has Disc Brake. Everything
here is in small letters and without accents, as `kg.names.normalise` writes names. English only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kgwalk.kg.names import singular

_PLURALS = {"person": "people", "man": "men", "woman": "women", "child": "children", "series": "series"}
_PLURALS |= {"species": "species", "wife": "wives", "knife": "knives", "shelf": "shelves", "foot": "feet"}


def singular_name(name: str) -> str:
    """A name whose last word is in the singular.

    >>> [singular_name(name) for name in ("countries", "sales people", "noble gasses", "disc brakes", "status")]
    ['country', 'sales person', 'noble gas', 'disc brake', 'status']
    """
    before, _, last = name.rpartition(" ")
    return f"{before} {singular(last)}".strip()


def plural_name(name: str) -> str:
    """A name whose last word is in the plural.

    >>> [plural_name(name) for name in ("country", "sales person", "bus", "noble gas", "day")]
    ['countries', 'sales people', 'buses', 'noble gases', 'days']
    """
    before, _, last = name.rpartition(" ")
    if last in _PLURALS:
        many = _PLURALS[last]
    elif re.search(r"[^aeiou]y$", last):
        many = last[:-1] + "ies"
    else:
        many = last + ("es" if re.search(r"(?:s|x|z|ch|sh)$", last) else "s")
    return f"{before} {many}".strip()


# Countries and continents: what belongs to them is called, and what else they are called themselves

_DEMONYMS = """
    afghanistan: afghan | africa: african | albania: albanian | algeria: algerian | americas: american
    angola: angolan | antarctica: antarctic | argentina: argentine, argentinian, argentinean | armenia: armenian
    asia: asian | australia: australian, aussie | austria: austrian | azerbaijan: azerbaijani, azeri
    bahamas: bahamian | bahrain: bahraini | bangladesh: bangladeshi | barbados: barbadian | belarus: belarusian
    belgium: belgian | belize: belizean | benin: beninese | bhutan: bhutanese | bolivia: bolivian
    bosnia and herzegovina: bosnian | botswana: botswanan | brazil: brazilian | brunei: bruneian
    bulgaria: bulgarian | burkina faso: burkinabe | burundi: burundian | cambodia: cambodian | cameroon: cameroonian
    canada: canadian | cape verde: cape verdean | central african republic: central african | chad: chadian
    chile: chilean | china: chinese | colombia: colombian | comoros: comorian | congo: congolese
    costa rica: costa rican | croatia: croatian, croat | cuba: cuban | cyprus: cypriot | czech republic: czech
    denmark: danish, dane | djibouti: djiboutian | dominica: dominican | dominican republic: dominican
    ecuador: ecuadorian | egypt: egyptian | el salvador: salvadoran, salvadorean | england: english
    equatorial guinea: equatoguinean | eritrea: eritrean | estonia: estonian | eswatini: swazi | ethiopia: ethiopian
    europe: european | fiji: fijian | finland: finnish, finn | france: french | gabon: gabonese | gambia: gambian
    georgia: georgian | germany: german | ghana: ghanaian | greece: greek | greenland: greenlandic
    grenada: grenadian | guatemala: guatemalan | guinea: guinean | guyana: guyanese | haiti: haitian
    honduras: honduran | hungary: hungarian | iceland: icelandic, icelander | india: indian | indonesia: indonesian
    iran: iranian, persian | iraq: iraqi | ireland: irish | israel: israeli | italy: italian | ivory coast: ivorian
    jamaica: jamaican | japan: japanese | jordan: jordanian | kazakhstan: kazakh, kazakhstani | kenya: kenyan
    kosovo: kosovar | kuwait: kuwaiti | kyrgyzstan: kyrgyz | laos: lao, laotian | latvia: latvian
    lebanon: lebanese | liberia: liberian | libya: libyan | liechtenstein: liechtensteiner | lithuania: lithuanian
    luxembourg: luxembourgish, luxembourger | madagascar: malagasy, madagascan | malawi: malawian
    malaysia: malaysian | maldives: maldivian | mali: malian | malta: maltese | mauritania: mauritanian
    mauritius: mauritian | mexico: mexican | micronesia: micronesian | moldova: moldovan | monaco: monegasque
    mongolia: mongolian | montenegro: montenegrin | morocco: moroccan | mozambique: mozambican | myanmar: burmese
    namibia: namibian | nauru: nauruan | nepal: nepalese, nepali | netherlands: dutch
    new zealand: new zealander, kiwi | nicaragua: nicaraguan | niger: nigerien | nigeria: nigerian
    north america: north american | north korea: north korean | north macedonia: macedonian | norway: norwegian
    oceania: oceanian | oman: omani | pakistan: pakistani | palestine: palestinian | panama: panamanian
    papua new guinea: papua new guinean, papuan | paraguay: paraguayan | peru: peruvian
    philippines: filipino, philippine | poland: polish, pole | portugal: portuguese | puerto rico: puerto rican
    qatar: qatari | romania: romanian | russia: russian | rwanda: rwandan | samoa: samoan
    saudi arabia: saudi, saudi arabian | scotland: scottish, scots, scot | senegal: senegalese
    serbia: serbian, serb | seychelles: seychellois | sierra leone: sierra leonean | singapore: singaporean
    slovakia: slovak, slovakian | slovenia: slovenian, slovene | somalia: somali | south africa: south african
    south america: south american | south korea: south korean, korean | south sudan: south sudanese
    spain: spanish, spaniard | sri lanka: sri lankan | sudan: sudanese | suriname: surinamese
    sweden: swedish, swede | switzerland: swiss | syria: syrian | taiwan: taiwanese | tajikistan: tajik
    tanzania: tanzanian | thailand: thai | tibet: tibetan | timor leste: timorese | togo: togolese | tonga: tongan
    trinidad and tobago: trinidadian | tunisia: tunisian | turkey: turkish, turk | turkmenistan: turkmen
    uganda: ugandan | ukraine: ukrainian | united arab emirates: emirati | united kingdom: british, briton
    united states: american | uruguay: uruguayan | uzbekistan: uzbek | venezuela: venezuelan | vietnam: vietnamese
    wales: welsh | yemen: yemeni, yemenite | zambia: zambian | zimbabwe: zimbabwean | scandinavia: scandinavian
    california: californian | texas: texan | bavaria: bavarian | catalonia: catalan | flanders: flemish
    latin america: latin american | middle east: middle eastern | soviet union: soviet | paris: parisian
    london: londoner | rome: roman | vienna: viennese | venice: venetian | new york: new yorker
"""
# Names of one thing, the first the most usual. "us" and "it" in small letters are words.
_SAME = """
    united states: usa, us, u s, u s a, united states of america, america, the states
    united kingdom: uk, u k, great britain, britain, united kingdom of great britain and northern ireland
    united arab emirates: uae, u a e, emirates
    european union: eu, e u
    united nations: un, u n
    czech republic: czechia
    netherlands: holland, the netherlands
    ivory coast: cote d ivoire
    timor leste: east timor
    myanmar: burma, myanmar burma
    eswatini: swaziland
    cape verde: cabo verde
    north macedonia: macedonia, republic of macedonia
    turkey: turkiye
    russia: russian federation
    south korea: republic of korea, korea republic of, korea south
    north korea: dprk, democratic people s republic of korea, korea north
    vietnam: viet nam
    bosnia and herzegovina: bosnia, bosnia herzegovina
    vatican city: vatican, holy see
    democratic republic of the congo: dr congo, drc, congo kinshasa, congo dem rep
    republic of the congo: congo brazzaville, congo rep
    trinidad and tobago: trinidad, trinidad tobago
    papua new guinea: png
    new zealand: nz
    china: people s republic of china, prc
    soviet union: ussr, u s s r
    new york city: nyc, new york
    washington d c: washington dc
    saint petersburg: st petersburg
"""


def _rows(table: str) -> Iterator[tuple[str, list[str]]]:
    for row in filter(str.strip, re.split(r"[|\n]", table)):
        name, _, others = row.strip().partition(": ")
        yield name, others.split(", ")


def _tables() -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """The places of each people, and of each name the others of the same thing."""
    people: dict[str, list[str]] = {}
    for name, forms in _rows(_DEMONYMS):
        for form in forms:
            people.setdefault(form, []).append(name)
    same: dict[str, list[str]] = {}
    for name, others in _rows(_SAME):
        for one in [name, *others]:
            same.setdefault(one, []).extend(other for other in [name, *others] if other != one)
    return people, same


_PEOPLE, _SAME_NAMES = _tables()


def other_names(plain: str) -> list[str]:
    """Other names of what these words name, or whose people they name; none for most words.

    >>> other_names("french"), other_names("swiss"), other_names("east timor"), other_names("lamp")
    (['france'], ['switzerland'], ['timor leste'], [])
    """
    places = _PEOPLE.get(plain) or _PEOPLE.get(singular_name(plain)) or []
    named = [name for place in places for name in [place, *_SAME_NAMES.get(place, [])]]
    return list(dict.fromkeys([*_SAME_NAMES.get(plain, []), *named]))


def initials(name: str) -> set[str]:
    """The first letters of a name's words, with and without those of words that join others.

    >>> sorted(initials("bill of materials")), initials("paris")
    (['bm', 'bom'], set())
    """
    words = name.split()
    telling = [word for word in words if word not in ("of", "the", "and", "for", "de")]
    return {"".join(word[0] for word in some) for some in (words, telling) if len(some) > 1}


# Words that people ask with. A name of which the question has only such a word, or which is spelt nearly like one, is
# not meant: "united" may be United Airlines, "open" is not The Open. In the singular, verbs as they are.
_COMMON = """
    able above accept across act active actual add adult age ago agree air alive allow almost alone along already
    always amount animal answer anyone anything anywhere appear apply area arrive arrival ask attend available
    average away back bad base basic bear become begin behind belong below best better big bill body book born
    border bottom box break bring brother brown build building built business busy buy buying bought by car card
    care carry case cause center centre century certain change charge cheap check child choose city claim class
    clean clear close cold colour color column common company compare complete consist contain content continue
    control cook cool copy correct cost count country couple course cover create cross current customer cut daily
    dark data date day dead deal death decide deep delay deliver delivery depend dependency describe design detail
    die difference different difficult direct directly discover distance divide document door double draw drink
    drive drop dry due each early earn east easy eat economy either element else email employ employee empty end
    enough enter entire equal especially even event everybody everyone everything everywhere exact exactly example
    except exist expensive fact fail fall family famous far fast favorite feature feel female few fewer field fight
    fill final find fine finish fire fit fix flight fly follow food foot force foreign form former found four five
    six seven eight nine ten free frequent friend front full function future game general girl good great green
    group grow guy half hand happen happy hard head hear heavy height help hero high hire history hit hold home hot
    hour house human idea important inch include income indirectly inside install instead interest item join job
    jump keep key kill kilo kilometer know lack land language large largest late later latest lead learn least
    leave left length less let letter level lie life light like limit line link little live local locate location
    long look lose loss lot love low lower main maintain maintainer major male man manage manager market marry
    material maximum meaning measure meet member men mention mile million minimum minute miss model modern money
    month more morning move movie music near nearly need neighbor neighbour never new news next nice night nobody
    none normal north note nothing number object occur offer office official old older oldest open operate opposite
    order original outside owe own owner page paint pair paper parent park part pass past pay people per percent
    perhaps period person phone pick picture piece place plan plane plant play player please point poor popular
    population position possible power present president pretty price print private probably problem process
    produce product profit program project provide public pull purchase push put quality quantity question quick
    quickly quiet rank rate ratio reach read ready real really reason receive recent record red reduce region
    relate release remain remember remove report require rest result return revenue rich ride right ring rise road
    role room round row rule run safe salary sale same save scale schedule school score sea season seat second
    section see seem select sell send separate serve service set several shape share shelf ship shipment short shot
    side sign similar simple since single sister sit size slow small smart smell sold someone something sometimes
    son soon sort sound source south space speak special speed spell spend spoken stand standard star start state
    status stay step stock stop store story straight street strong study subject such suggest sum supplier supply
    sure surname system table tall task team tell temperature term test text thank thing think third thousand three
    tie till time title today together tomorrow tonight top total town trade train travel tree trip true try turn
    twice two under unit until unusual upper useful user usual usually value various version view visit voice wait
    walk wall want war warm wash watch water way weak wear week weekend weigh weight well west wet whatever wheel
    white whole wide wife win wind window winner winter wish woman wonder word work worker world worse worst write
    writer wrong year yellow yes yesterday young youngest zero adress apart approximately arent besides both
    couldnt didnt doesnt dont earliest fewest hadnt hasnt havent highest heaviest heavier higher isnt longest
    longer lowest nearest newest overall roughly shortest smallest smaller biggest bigger strongest tallest taller
    thats theres wasnt werent whats whos wont wouldnt youve
"""
COMMON_WORDS = frozenset(_COMMON.split())
_NAMES = {"united"}  # no form of "unit"


def is_common(plain: str) -> bool:
    """Whether a word is one that people ask with, in any of its forms.

    >>> [is_common(word) for word in ("orders", "ordered", "cheapest", "shipping", "making", "united", "honolulu")]
    [True, True, True, True, False, False, False]
    """
    if plain in COMMON_WORDS or singular(plain) in COMMON_WORDS:
        return True
    if plain in _NAMES:
        return False
    stem = re.sub(r"(?:ing|ed|er|est|d|st|ly)$", "", plain)
    return len(stem) > 2 and any(form in COMMON_WORDS for form in (stem, stem[:-1], stem + "e"))
