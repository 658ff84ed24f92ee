"""Lists of English words for the instructions. All words are in lower case.

`VERB_FORMS` holds the forms of common verbs, many of which are also nouns: a word counts as a verb when it can be one.
A part-of-speech tagger would be more exact, but it is another model.
"""

from __future__ import annotations


def listed(text: str) -> tuple[str, ...]:
    """Split a list of words at white space."""
    return tuple(text.split())


COORDINATING_CONJUNCTIONS = frozenset(listed("and but for nor or so yet"))

PRONOUNS = frozenset(
    listed(
        "i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she "
        "her hers herself it its itself they them their theirs themselves this that these those who whom whose "
        "which what whoever whomever whatever whichever anybody anyone anything everybody everyone everything "
        "nobody nothing somebody someone something each either neither both all some any none"
    )
)

STOP_WORDS = frozenset(
    listed(
        "i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers "
        "herself it its itself they them their theirs themselves what which who whom this that these those am is "
        "are was were be been being have has had having do does did doing a an the and but if or because as until "
        "while of at by for with about against between into through during before after above below to from up "
        "down in out on off over under again further then once here there when where why how all any both each "
        "few more most other some such no nor not only own same so than too very s t can will just don should now "
        "d ll m o re ve y ain aren couldn didn doesn hadn hasn haven isn ma mightn mustn needn shan shouldn wasn "
        "weren won wouldn"
    )
)

MINOR_WORDS = frozenset(
    listed(
        "a an the and but or nor for so yet as at by if in into of off on onto per to up via vs with from than"
    )
)
"""Words that titles may write in lower case."""

ABBREVIATIONS = frozenset(
    listed(
        "mr mrs ms dr prof sr jr st mt rev hon gen col lt capt sgt gov vs e.g i.e cf al approx dept fig figs inc ltd "
        "corp vol vols pp eds p.s p.p.s"
    )
)
"""Abbreviations that end in a point and don't end sentences, without it."""

PERSON_NAMES = listed(
    "Emma Liam Sophia Jackson Olivia Noah Ava Lucas Isabella Mason Mia Ethan Charlotte Alexander Amelia Benjamin "
    "Harper Leo Zoe Daniel Chloe Samuel Lily Matthew Grace Owen Abigail Gabriel Ella Jacob Scarlett Nathan Victoria "
    "Elijah Layla Nicholas Audrey David Hannah Christopher Penelope Thomas Nora Andrew Aria Joseph Claire Ryan "
    "Stella Jonathan"
)
"""The names that IFBench's instruction lists."""

_REGULAR_VERBS = """
abandon absorb accept access accompany achieve acknowledge acquire act activate adapt add address adjust
admire admit adopt advance advise afford agree aim alert align allocate allow alter amend analyse analyze
announce answer anticipate apologize appeal appear apply appoint appreciate approach approve argue arrange
arrest arrive ask assemble assert assess assign assist assume assure attach attack attempt attend attract
avoid await award back bake balance ban bang base battle beg behave believe belong benefit blame bless block
board boast boil book boost borrow bother bounce bow brainstorm breathe brush bury bypass calculate call
calm camp cancel capture care carry carve cast catalog categorize cause celebrate challenge change charge
chart chase chat check cheer choose chop cite claim clarify classify clean clear click climb close coach
coat code collaborate collapse collect color combine comfort command comment commit communicate compare
compete compile complain complete compose compress compute conceal concentrate conclude conduct confess
confirm conform confront confuse connect conquer consider consist construct consult consume contact contain
continue contrast contribute control convert convey convince cook cool cooperate coordinate copy correct
count cover crack craft crash crawl create criticize cross crush cry cultivate cure curl customize cycle
dance dare date debate debug decide declare decline decorate decrease dedicate defeat defend define delay
delegate delete deliver demand demonstrate deny depart depend deploy describe deserve design desire destroy
detail detect determine develop devote diagnose die differ digest dine dip direct disable disagree disappear
discard discover discuss dismiss display dissolve distinguish distribute dive divide document donate doubt
download draft drag dress drift drop drown dry dump earn ease echo edit educate elaborate elect eliminate
embark embed embrace emerge emphasize employ empower enable encounter encourage end endure enforce engage
enhance enjoy enlarge enroll ensure enter entertain escape establish estimate evaluate evolve examine exceed
exchange excite exclude execute exercise exhibit exist expand expect experience experiment explain explode
exploit explore export expose express extend extract face fade fail fasten favor fear feature fetch file
fill film filter finalize finish fire fit fix flash float flood flow focus fold follow force forecast form
formulate foster frame free fry fuel fulfill function gain gather gaze generate glance glow govern grab
grade grant graph greet grill grin group guarantee guard guess guide handle hang happen harm harvest hate
haul haunt head heal heat help hesitate highlight hike hire hop hope host hug hunt hurry identify ignite
ignore illustrate imagine implement imply import impress improve include incorporate increase indicate
influence inform inherit initialize initiate inject inquire insert insist inspect inspire install instruct
integrate intend interact interest interpret interview introduce invent invest investigate invite involve
isolate itch iterate jog join joke judge jump justify kick kill kiss knock label land last laugh launch
learn lessen level leverage lick lift light like limit line link list listen live load locate lock log long
look love lower maintain manage map march mark market marry match measure meditate melt mend mention merge
mind minimize mirror miss mix model modify monitor motivate mount move multiply murder name navigate need
negotiate nod note notice number nurture obey object observe obtain occur offer open operate opt optimize
order organize originate outline overlook own pack paint park participate pass paste pause perceive perform
permit persist persuade phone pick picture place plan plant play plead please plot plug point polish pop
portray possess post pour practice practise praise pray predict prefer prepare present preserve press
pretend prevent print prioritize proceed process produce program progress project promise promote prompt
propose protect prove provide publish pull pump punch punish purchase pursue push qualify question queue
race rain raise rank rate reach react realize recall receive recite recognize recommend reconsider record
recover recruit recycle reduce refer refine reflect refresh refuse regard register regret regulate reject
rejoice relate relax release rely remain remark remember remind remove render renew rent repair repeat
rephrase replace reply report represent request require rescue research resemble reserve resist resolve
respect respond restart restore restrict result retain retire retrieve return reveal reverse review revise
revisit reward rinse risk roar rob roll rotate ruin rule rush sail sample satisfy save savor scan scare
schedule scold score scrape scratch scream screen scrub seal search season secure seem select separate serve
settle shape share shift ship shock shop shout show sigh sign signal simplify simulate sip skip slice slide
slip slow smash smell smile smoke snap sneeze soak solve sort sound spare spark specify spell spill spot
spray squash squeeze stamp stare start state stay steer step stir stitch stop store strengthen stress
stretch strip stroll structure struggle study submit subscribe substitute subtract succeed suffer suggest
suit summarize supply support suppose surprise surrender surround survey survive suspect swallow switch sync
tackle talk tap target taste tease tempt tend terminate test thank think tick tie time tip tour trace track
trade train transfer transform translate transport trap travel treat tremble trick trigger trim trust try
tug tumble tune turn twist type uncover unite unleash unlock unpack update upgrade upload urge use utilize
validate value vanish vary verify view visit visualize voice vote wait walk wander want warm warn wash waste
watch water wave weigh welcome whip whisper whistle widen wink wipe wish wonder work worry wrap wreck yawn
yell yield zoom
"""

_IRREGULAR_VERBS = """
arise arose arisen|be am is are was were been being|bear bore borne|beat beaten|become became|
begin began begun beginning|bend bent|bet betting|bind bound|bite bit bitten|bleed bled|blow blew blown|
break broke broken|bring brought|build built|burn burnt|burst|buy bought|can could|catch caught|
choose chose chosen|cling clung|come came|cost|creep crept|cut cutting|deal dealt|dig dug digging|
do does did done|draw drew drawn|dream dreamt|drink drank drunk|drive drove driven|eat ate eaten|
fall fell fallen|feed fed|feel felt|fight fought|find found|flee fled|fling flung|fly flies flew flown|
forbid forbade forbidden forbidding|forget forgot forgotten forgetting|forgive forgave forgiven|
freeze froze frozen|get got gotten getting|give gave given|go goes went gone|grind ground|grow grew grown|
have has had having|hear heard|hide hid hidden|hit hitting|hold held|hurt|keep kept|kneel knelt|
know knew known|lay laid|lead led|lean leant|leap leapt|leave left|lend lent|let letting|lie lay lain lying|
lose lost|make made|may might|mean meant|meet met|must|pay paid|put putting|quit quitting|read|
rethink rethought|rewrite rewrote rewritten|ride rode ridden|ring rang rung|rise rose risen|run ran running|
say said|see saw seen|seek sought|sell sold|send sent|set setting|sew sewn|shake shook shaken|shall should|
shed shedding|shine shone|shoot shot|shrink shrank shrunk|shut shutting|sing sang sung|sink sank sunk|
sit sat sitting|sleep slept|sow sown|speak spoke spoken|speed sped|spend spent|spin spun spinning|
split splitting|spread|spring sprang sprung|stand stood|steal stole stolen|stick stuck|sting stung|
strike struck|strive strove striven|swear swore sworn|sweep swept|swim swam swum swimming|swing swung|
take took taken|teach taught|tear tore torn|tell told|throw threw thrown|understand understood|
undertake undertook undertaken|wake woke woken|wear wore worn|weave wove woven|weep wept|will would|
win won winning|wind wound|write wrote written
"""

_VOWELS = "aeiou"


def _forms(verb: str) -> set[str]:
    """Return the regular forms of a verb: -s, -ing, -ed."""
    if verb.endswith("e"):
        return {
            verb,
            f"{verb}s",
            f"{verb}d",
            f"{verb[:-2]}ying" if verb.endswith("ie") else f"{verb[:-1]}ing",
        }
    if verb.endswith("y") and verb[-2] not in _VOWELS:
        return {verb, f"{verb[:-1]}ies", f"{verb[:-1]}ied", f"{verb}ing"}
    ending = "es" if verb.endswith(("s", "sh", "ch", "x", "z")) else "s"
    doubled = verb + verb[-1] if _may_double(verb) else verb
    return {verb, f"{verb}{ending}", f"{verb}ed", f"{verb}ing", f"{doubled}ed", f"{doubled}ing"}


def _may_double(verb: str) -> bool:
    """Return whether the last consonant may be doubled (stop, stopping); stress, which also matters, is unknown."""
    return len(verb) > 2 and verb[-1] not in "aeiouwxy" and verb[-2] in _VOWELS and verb[-3] not in _VOWELS


VERB_FORMS = frozenset(form for verb in _REGULAR_VERBS.split() for form in _forms(verb)) | frozenset(
    form
    for line in _IRREGULAR_VERBS.split("|")
    for verb, *others in [line.split()]
    for form in (*_forms(verb), *others)
)
