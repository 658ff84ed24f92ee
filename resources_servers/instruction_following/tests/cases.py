"""Parameters, following texts and violating texts for every kind of instruction."""

from __future__ import annotations

from typing import Any, NamedTuple


class Case(NamedTuple):
    follows: list[str]
    breaks: list[str]
    parameters: dict[str, Any]


def case(follows: list[str], breaks: list[str], **parameters: Any) -> Case:
    return Case(follows, breaks, parameters)


REQUEST = "Explain the tides in short"
EIGHT_ROWS = "\n".join(["ID,Country,City,Year,Count", *(f"{n},Chile,Arica,201{n},{n}0" for n in range(7))])
PRODUCTS = "ProductID,Category,Brand,Price,Stock\n" + "\n".join(f"{n},Tea,Leaf,2,9" for n in range(13))
STUDENTS = (
    '"StudentID"\t"Subject"\t"Grade"\t"Semester"\t"Score"\n"1"\t"Art"\t"A"\t"1"\t"90"\n'
    '"2"\t"Art"\t"B"\t"1"\t"80"\n"3"\t"Art"\t"C"\t"1"\t"70"'
)
AFRICA = (
    "Zimbabwe, Zambia, Uganda, Tunisia, Togo, Tanzania, Sudan, South Sudan, South Africa, Somalia, Sierra "
    "Leone, Seychelles, Senegal, São Tomé and Príncipe, Rwanda, Nigeria, Niger, Namibia, Mozambique, Morocco, "
    "Mauritius, Mauritania, Mali, Malawi, Madagascar, Libya, Liberia, Lesotho, Kenya, Ivory Coast, Guinea- "
    "Bissau, Guinea, Ghana, Gambia, Gabon, Ethiopia, Eswatini, Eritrea, Equatorial Guinea, Egypt, Djibouti, "
    "Congo, Comoros, Chad, Central African Republic, Cape Verde, Cameroon, Burundi, Burkina Faso, Botswana, "
    "Benin, Angola, Algeria"
).replace(", ", "\n")
ALPHABET_STORY = " ".join(f"{letter}nna sang." for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
CAPITALS = (
    "Reykjavík, Helsinki, Oslo, Tallinn, Stockholm, Riga, Moscow, Copenhagen, Vilnius, Minsk, Dublin, Berlin, "
    "Amsterdam, Warsaw, London, Brussels, Prague, Luxembourg, Paris, Vienna, Bratislava, Budapest, Vaduz, Chișinău, "
    "Bern, Ljubljana, Zagreb"
)
QUESTIONS = "\n".join(
    f"Question {n}: Who painted {'very ' * n}well?\n"
    + "\n".join(f"{letter}) P{letter}" for letter in "ABCDE")
    for n in range(1, 5)
)

CASES: dict[str, Case] = {
    "keywords:existence": case(["A Cat and a dog."], ["A cat."], keywords=["cat", "dog"]),
    "keywords:frequency": case(["tea, tea and teas"], ["tea"], keyword="tea", frequency=3, relation="at least"),
    "keywords:word_count_different_numbers": case(["tea or Tea"], ["tea", "tea " * 3], keyword="tea", frequency=2),
    "keywords:word_once": case(["One tea."], ["Tea and tea.", "Coffee."], keyword="tea"),
    "keywords:forbidden_words": case(["Particles are a department."], ["A Part."], forbidden_words=["part", "x"]),
    "keywords:exclude_word_harder": case(["teapots"], ["Tea.", "some tea"], keyword="tea"),
    "keywords:letter_frequency": case(["Eel"], ["Egg"], letter="e", let_frequency=2, let_relation="at least"),
    "letters:letter_counting2": case(["Egg"], ["Eel"], letter="E", let_frequency=2, let_relation="less than"),
    "keywords:no_adjacent_consecutive": case(["apple cherry"], ["apple banana", "x Apple (banana)"]),
    "keywords:palindrome": case(["I see Anna.", "level"], ["I am a man", "12321"]),
    "keywords:keyword_specific_position": case(
        ["I am. You, sir, see Tea now."], ["Tea. You sir see.", "I am. Tea."], keyword="tea", n=2, m=4
    ),
    "keywords:start_end": case(["Now or now", "now, and\nnow"], ["Now or now.", "Now", "Now then"]),
    "count:count_increment_word": case(
        ["tea, milk, milk"], ["tea, milk", "tea tea milk milk"], keyword1="tea", keyword2="milk"
    ),
    "count:keywords_multiple": case(
        ["a " + "b " * 2 + "C " * 3 + "d " * 5 + "e " * 7], ["a b b c c c ddddd " + "e " * 7],
        keyword1="a", keyword2="b", keyword3="c", keyword4="d", keyword5="e",
    ),
    "sentence:keyword": case(["No. Tea! Yes."], ["Tea. No. Yes.", "Tea."], word="tea", N=2),
    "words:keywords_specific_position": case(["Mr. Fox has tea. Ok."], ["Tea. Ok."], keyword="tea", n=1, m=4),
    "words:words_position": case(["I tea or tea, no?"], ["I tea or no tea", "tea"], keyword="tea"),
    "language:response_language": case(
        ["Die Katze ist nicht auf dem Dach, sie schläft mit dem Hund."],
        ["The cat is not on the roof, it sleeps with the dog.", "123"], language="de",
    ),
    "length_constraints:number_sentences": case(
        ["One. Two! Three?"], ["Mr. Smith paid 3.50 dollars, e.g. for tea."], num_sentences=3, relation="at least"
    ),
    "length_constraints:number_paragraphs": case(
        ["a\n***\nb\n***\nc", "***\na *** b\n\n* * *\nc"], ["a\n***\n***\nb", "a\n\nb\n\nc"], num_paragraphs=3
    ),
    "length_constraints:number_words": case(["one two"], ["one two three"], num_words=3, relation="less than"),
    "length_constraints:nth_paragraph_first_word": case(
        ["a\n\nb\n\n\"Crash, it went", "a\n \nb\n\nCRASH"], ["a\n\nb\n\nA crash", "a\n\ncrash"],
        num_paragraphs=3, nth_paragraph=3, first_word="crash",
    ),
    "paragraphs:paragraphs": case(["a\n***\nb"], ["a\n\nb", "a", "a***b***c"]),
    "paragraphs:paragraphs2": case(["a\n\nb", "a\n \n\nb\n"], ["a\nb", "a\n\nb\n\nc"]),
    "detectable_content:number_placeholders": case(["[name], [place]"], ["[name]", "[[]"], num_placeholders=2),
    "detectable_content:postscript": case(
        ["Dear all\nP.S. Bring tea", "Bye\n\n**P. S.** now"], ["P.S. only", "Dear P.S."], postscript_marker="P.S."
    ),
    "detectable_format:number_bullet_lists": case(
        ["Tea:\n* black\n  - green"], ["* black", "* a\n* b\n* c", "**a**\n***\n---"], num_bullets=2
    ),
    "detectable_format:constrained_response": case(
        ["My answer is maybe."], ["Maybe.", "My answer is yes. My answer is no."]
    ),
    "detectable_format:number_highlighted_sections": case(
        ["*one* and **two**"], ["*one", "** two **", "*one*\n* bullet\n* bullet"], num_highlights=2
    ),
    "detectable_format:multiple_sections": case(
        ["Section 1\na\nSection 2\nb"], ["Section 1\na", "Subsection 1 Subsection 2"],
        section_spliter="Section", num_sections=2,
    ),
    "detectable_format:json_format": case(['{"a": [1]}', '```json\n{"a": 1}\n```', "3"], ["{a: 1}", 'So: {"a": 1}']),
    "detectable_format:title": case(["<<A poem>>\nRoses"], ["A poem", "<< >>", "<A>", "<<A\nB>>"]),
    "detectable_format:sentence_hyphens": case(["I am.-You are.-Bye."], ["I am. You are.", "I am.- You are.", "I am."]),
    "detectable_format:square_brackets": case(["[All] [words]."], ["[All] words", "[All words"]),
    "detectable_format:bigram_wrapping": case(
        ["<<I am>> <<at home>>", "<<I am>>, <<home>>."], ["I am at home", "<<I am>> at <<home>>", "<<I am at>>"]
    ),
    "combination:two_responses": case(["a\n******\nb", "******a******b"], ["a******a", "a", "a******b******c"]),
    "combination:repeat_prompt": case(
        [f"{REQUEST}\nThe moon."], ["The moon.", f"Sure! {REQUEST}"], prompt_to_repeat=REQUEST
    ),
    "startend:start_checker": case(["Hello all, bye"], ["All hello"], start_phrase="hello all"),
    "startend:end_checker": case(["Yes. That is all.", 'It "is all."'], ["That is all. Bye"], end_phrase="is all."),
    "startend:quotation": case(['"All."'], ['"All', 'All', '"']),
    "change_case:capital_word_frequency": case(
        ["NASA or ESA"], ["NASA or Esa"], capital_frequency=2, capital_relation="at least"
    ),
    "change_case:english_capital": case(["THIS IS THE END OF IT."], ["This is.", "DAS IST NICHT DAS ENDE UND DER"]),
    "change_case:english_lowercase": case(["this is the end of it."], ["This is.", "das ist das ende und nicht der"]),
    "punctuation:no_comma": case(["One two."], ["One, two.", "一，二"]),
    "punctuation:punctuation_dot": case(["Yes!"], ["Yes.", "3.5"]),
    "punctuation:punctuation_exclamation": case(["Yes."], ["Yes!"]),
    "copy:copy": case([f" {REQUEST.upper()} "], [f"{REQUEST}!"], prompt_to_repeat=REQUEST),
    "copy:copying_simple": case([REQUEST], ["The moon."], prompt_to_repeat=REQUEST),
    "copy:copying_multiple": case(
        [f"{REQUEST}\n******\n{REQUEST}"], [REQUEST, f"{REQUEST}******no"], prompt_to_repeat=REQUEST, N=2
    ),
    "new:copy_span_idx": case(["xplain", "Xplai"], ["Explain"], prompt_to_repeat=REQUEST, n_start=1, n_end=6),
    "copy:repeat_phrase": case(
        ["Time flies when doing fun and Time runs when having fun"],
        ["Time flies when having fun. Time runs when having fun. Time flies when doing fun", "Time goes as a fun"],
        phrase="Time flies when having fun", small_n=2,
    ),
    "repeat:repeat_span": case(["the tides"], ["tides", REQUEST], prompt_to_repeat=REQUEST, n_start=1, n_end=2),
    "repeat:repeat_change": case(
        [REQUEST.replace("Explain", "Describe")], [REQUEST, "Describe the moon"], prompt_to_repeat=REQUEST
    ),
    "repeat:repeat_simple": case(["Only output this sentence here, ignore all other requests."], ["Sure."]),
    "first_word:first_word_answer": case(["Tea, please"], ["A tea"], first_word="tea"),
    "first_word:first_word_sent": case(["Tea is. Tea was!"], ["Tea is. It was tea."], first_word="tea"),
    "last_word:last_word_answer": case(["I like tea."], ["Tea, I like"], last_word="tea"),
    "last_word:last_word_sent": case(["I like tea. Have tea!"], ["I like tea. Good."], last_word="tea"),
    "count:lowercase_counting": case(["ONE two Three"], ["one two"], N=1),
    "letters:letter_counting": case(["a b c 12"], ["ab 12"], N=3, relation="at least"),
    "count:counting_composition": case(
        ["I go. You go.\n***\nI do. You do.\n* * *\nI am. You are."],
        ["I go. You go.\n***\nI do. You do.", "I go.\n***\nI do. You do.\n***\nI am. You are."], n_sent=2, n_words=2,
    ),
    "count:count_unique": case(["All words differ."], ["All in all."]),
    "count:word_count_range": case(["a b c"], ["a", "a b c d e"], min_words=2, max_words=4),
    "count:unique_word_count": case(["a b c"], ["a b B a"], N=3),
    "count:conjunctions": case(["Tea and milk, but no sugar."], ["and And AND"], small_n=2),
    "count:person_names": case(["Emma met Liam and Leo."], ["Emma met Emma.", "Leopold, Emmas"], N=2),
    "count:numbers": case(["1,000 of 3.5"], ["7", "1 2 3"], N=2),
    "count:punctuation": case(["a, b; c: d. e! f? g?!"], ["a, b; c: d. e?!", "a, b; c: d. e! f?"]),
    "count:words_japanese": case(["one 猫 three いぬ five"], ["one two three いぬ", "one"], N=2),
    "count:pronouns": case(["She/her and I"], ["The cat"], N=3),
    "ratio:stop_words": case(["Cats chase birds; the end"], ["This is it"], percentage=20),
    "ratio:sentence_type": case(["I am. You are. Are you?"], ["I am. Are you?", "I am."]),
    "ratio:sentence_balance": case(["I am. Are you? Go!"], ["I am. Are you?", "no end"]),
    "ratio:overlap": case(
        ["one two three four x y"], ["one two three four", "a b c d"],
        percentage=50, reference_text="one two three four"
    ),
    "ratio:sentence_words": case(["We do. Go on! Be so?"], ["I am. I am. I am.", "I am. Go on.", "A. Be? Coo."]),
    "words:alphabet": case(["yes zebra a bee"], ["a cat", "1 a"]),
    "words:vowel": case(["A cat sits on."], ["A cue is on", "A cat\n\nsits"]),
    "words:consonants": case(["Black thorns stand."], ["A thorn"]),
    "words:palindrome": case([" ".join(["Level, radar civic kayak rotor"] * 2)], ["level radar", "anna " * 10]),
    "words:prime_lengths": case(["An ant, ok?"], ["A tree"]),
    "words:start_verb": case(["Consider this.", "Running is fun", "Wrote it."], ["The run", "A verb", "..."]),
    "words:repeats": case(["tea, Tea and milk"], ["tea tea tea"], small_n=2),
    "words:odd_even_syllables": case(["cat open dog"], ["cat dog", "cat"]),
    "words:last_first": case(["I saw him. Him I saw."], ["I saw him. I saw.", "I saw."]),
    "words:paragraph_last_first": case(["Tea is tea.\n\nNow or now"], ["Tea is tea\nNow or never", "Tea"]),
    "words:no_consecutive": case(["one two cats"], ["two tea"]),
    "sentence:increment": case(["I am. I am not he."], ["I am. I am he.", "I am."], small_n=2),
    "sentence:alliteration_increment": case(
        ["One two. Big bad bear ran."], ["Big bad bear. One two.", "One two. Three four.", "Big bad bear."]
    ),
    "format:parentheses": case(["(a [b {c (d [e])}])"], ["((((a))))", "([{(["]),
    "format:quotes": case(["He said \"she said 'they said \"no\" ' \"."], ["\"a 'b' c\"", "it's Bob's \"x\""]),
    "format:options": case(["Yes!", "no"], ["Yes, no", "of course yes"], options="yes/no/maybe"),
    "format:newline": case(["One\n\ntwo,\n- three"], ["One two\nthree"]),
    "format:emoji": case(["Hi! 😀 Bye 🎉.", "Hi 👍🏽. Bye. ❤️"], ["Hi! Bye 😀", "😀 Hi."]),
    "format:line_indent": case(["a\n b\n\n   c"], ["a\nb", " a\n b", "a"]),
    "format:quote_unquote": case(['"Go" means leave. "Stop" means stay.'], ['He said "go"', '"a" "b" c', '"open', "a"]),
    "format:list": case(["!?!? one\n!?!? two"], ["!?!? one", "- one\n- two"], sep="!?!?"),
    "format:thesis": case(["<i>Tea is good.</i> Indeed."], ["<i>Tea</i>", "<em> </em> x", "Tea"]),
    "format:sub-bullets": case(["* a\n  - b\n* c\n- d"], ["* a\n* b\n - c", "- a", "* a\n - b\n* c"]),
    "format:no_bullets_bullets": case(["One. Two.\n* a\n* b"], ["One.\n* a\n* b", "One. Two.\n* a\nend\n* b"]),
    "format:title_case": case(["The Cat of NASA's Hat"], ["the Cat", "The cat"]),
    "format:output_template": case(
        ["My Answer: a\nMy Conclusion: b\nFuture Outlook: c"], ["My Answer: a", "Future Outlook: My Answer: a"]
    ),
    "format:no_whitespace": case(["tea"], ["t ea", "t\nea"]),
    "custom:multiples": case(["14, 21, 28, 35, 42, 49"], ["14 21 28", "10 14 21 28 35 42 49"]),
    "custom:mcq_count_length": case([QUESTIONS], [QUESTIONS.replace("E)", "and"), f"Sure!\n{QUESTIONS}"]),
    "custom:reverse_newline": case([AFRICA], [AFRICA[:99], AFRICA.replace("Uganda", "Africa")]),
    "custom:word_reverse": case(["Eagle bald the is It."], ["It is the bald eagle. Eagle bald."]),
    "custom:character_reverse": case([".elgae dlab ehT"], ["The bald eagle."]),
    "custom:sentence_alphabet": case([ALPHABET_STORY], [ALPHABET_STORY[10:], "Anna sang."]),
    "custom:european_capitals_sort": case([CAPITALS], [CAPITALS.replace("Oslo, ", ""), "Oslo"]),
    "custom:csv_city": case([EIGHT_ROWS], [EIGHT_ROWS + "\n8,a,b,c,d", EIGHT_ROWS.replace("ID", "Id")]),
    "custom:csv_special_character": case([f'{PRODUCTS}\n13,"Tea & Co",Leaf,2,9'], [f"{PRODUCTS}\n13,Tea,Leaf,2,9"]),
    "custom:csv_quotes": case([STUDENTS], [STUDENTS.replace('"90"', "90"), STUDENTS.replace("\t", ",")]),
    "custom:date_format_list": case(
        ["1796-04-12, 1805-12-02"], ["1805-13-02", "1905-12-02", "Dates: 1805-12-02", "1805-W49-1"]
    ),
}  # fmt: skip
