"""The real words of the grammar. words.py splits every list by hash into training and held-out words."""

NOUNS = """
anchor apple apron arrow autumn badge bakery balcony balloon banana barn barrel basket beach beacon bell
bench berry bicycle biscuit blanket boat bottle bowl branch bread bridge bronze brush bucket building butter
button cabin cable cake camera candle canyon carpet castle cedar cellar chair cheese cherry church cinema
circle cliff clock cloud coat coffee compass copper corner cotton cradle crown crystal curtain daisy deer
desert desk diamond dinner dolphin door dragon drawer dream dress drum eagle earth elephant engine envelope
evening fabric factory falcon farm feather fence ferry festival field finger fire flag flower flute forest
fountain fox frost garage garden garlic gate ghost giant ginger glass glove goat gold grain grape grass
guitar hammer harbour hat hazel helmet hill honey horse hotel house ice island ivory jacket jar jewel
journey jungle kettle keyboard king kitchen kite ladder lake lamp lantern laundry leaf leather lemon letter
library light lily lion lizard machine magnet mango map maple marble market meadow medal melon metal milk
mill mirror monkey moon morning mountain mushroom museum music mustard napkin needle nest night north novel
nut oak oasis ocean olive onion opera orange orchard otter oven owl package paint palace paper parade parrot
pasta path peach peanut pearl pebble pencil penguin pepper piano picnic pillow pilot pine pizza planet plate
plum pocket poem pond potato powder prince puzzle quartz queen rabbit radio rain raven ribbon rice ring
river road robin rocket roof rope rose sail salad salmon salt sand sandal scarf school sea shadow sheep
shell shelf ship shirt shoe silver sky smoke snow soap sofa song soup spice spider spoon spring square
squirrel stamp star statue stone stool storm stove street sugar suitcase summer sun swan sweater table tea
temple tent thunder tiger tomato torch tower toy train tree trumpet tulip tunnel turtle umbrella valley vase
velvet village vinegar violin voice wagon wall walnut water wave whale wheat wheel whistle willow wind
window winter wolf wood wool yard yogurt zebra
""".split()

OCCASIONS = """
appointment backup birthday brunch budget call class concert conference contract dentist doctor draft exam
exhibition haircut holiday interview invoice lecture lesson lunch match meeting party payment plan
presentation project rehearsal report review seminar standup survey tax training trip visit wedding workshop
yoga
""".split()

ERRAND_VERBS = """
book bring buy call check clean collect cook copy count cut draw feed fetch find fix fold iron mail measure
mend move order pack paint pay pick plant print read rent repair return send sell sew sign sort sweep visit
wash water weigh wrap write
""".split()

ADJECTIVES = """
big blue bright brown calm clean cold dark deep dry early empty fast fine fresh green grey heavy large late
light little long loud low narrow new old pale plain purple quick quiet red rough round sharp short silent
slow small smooth soft square strong sweet tall thick thin tiny warm wet white wide wild yellow young
""".split()

FIRST_NAMES = """
Adam Alice Alma Amir Anna Arthur Aylin Bela Ben Bruno Carla Carlos Chen Clara Daniel David Dora Elena Elif
Emma Erik Eva Fatima Felix Fiona Frank George Grace Greta Hana Hannah Hugo Ida Ines Iris Ivan Jack Jana
Jonas Julia Karen Kemal Kim Lara Laura Leo Lina Lucas Maria Mark Marta Max Maya Mehmet Mia Michael Mila
Nadia Nina Noah Nora Olga Oscar Paul Peter Petra Priya Rafael Rita Robert Rosa Ruth Samir Sara Simon Sofia
Stefan Susan Tara Thomas Tina Tom Uma Vera Victor Yara Yusuf Zoe
""".split()

LAST_NAMES = """
Adler Alvarez Baker Bauer Becker Berg Blom Brown Carter Castro Clark Costa Cruz Dahl Davis Diaz Evans
Fischer Fontana Fuchs Garcia Gomez Green Gruber Hall Hansen Hill Hoffmann Huber Ito Jansen Jones Kaya Keller
Khan King Klein Koch Kovac Lang Larsen Lee Lopez Martin Meyer Miller Moreau Moore Muller Nagy Nakamura Novak
Olsen Ortiz Park Patel Perez Petrov Popov Ramos Reed Reyes Ricci Rossi Roth Sanders Santos Sato Schmidt
Silva Singh Smith Steiner Stone Suzuki Tanaka Torres Turner Vogel Wagner Walker Weber White Wilson Wolf Wong
Wright Young Zhang
""".split()

CITIES = """
Amsterdam Athens Austin Barcelona Basel Berlin Bern Boston Bremen Brussels Budapest Cairo Chicago Cologne
Copenhagen Denver Dresden Dublin Florence Geneva Genoa Graz Hamburg Helsinki Istanbul Kyoto Lagos Leipzig
Lima Linz Lisbon London Lyon Madrid Manila Miami Milan Montreal Munich Nairobi Naples Nice Oslo Ottawa
Oxford Paris Porto Prague Quito Riga Rome Rotterdam Salzburg Santiago Seattle Seoul Seville Sofia Stockholm
Stuttgart Sydney Tallinn Tokyo Toronto Turin Utrecht Valencia Venice Vienna Vilnius Warsaw Zagreb Zurich
""".split()

ATTRIBUTES = """
address age altitude author badge band boat boss budget building captain capital captive car cargo chapter
chef city coach code color currency date deadline density depth desk dialect director distance doctor door
drink editor emblem engine film flag floor flower food founder fruit garden gate guardian harbor hobby host
key label language leader length level limit manager mascot material mayor model motto musician neighbor
number office owner paint partner password pet phone port price prize rank rating recipe river room route
salary score season secretary shift singer size song speed sponsor sport station status street supplier
symbol tailor tariff teacher team temperature title tool tower trainer tree value village voltage warden
watchman weight width wine winner year zone
""".split()

# Pieces of tool names, by what they do and what they do it to.
TOOL_VERBS = {
    "create": "create add new make set put insert save register compose establish enter store append".split(),
    "find": "find get search lookup fetch query show read locate retrieve inspect consult check".split(),
    "list": "list all enumerate index browse overview roster catalog view display".split(),
    "delete": "delete remove drop erase discard purge cancel clear trash unset".split(),
    "move": "move rename shift transfer relocate migrate carry push".split(),
    "update": "update change edit modify revise amend adjust correct replace".split(),
    "send": "send mail deliver dispatch post forward submit tell".split(),
}
TOOL_NOUNS = {
    "file": "file doc document path entry archive folio asset blob item".split(),
    "event": "event meeting appointment calendar slot booking session agenda date gathering".split(),
    "reminder": "reminder alarm alert todo nudge ping prompt timer notice".split(),
    "contact": "contact person friend people colleague rolodex member address partner".split(),
    "note": "note memo text page jotting scribble journal notebook remark".split(),
    "weather": "weather forecast climate conditions sky outlook temperature".split(),
    "message": "message mail sms letter chat email telegram".split(),
}
PARAMETER_NAMES = {
    "title": "title name subject label what heading caption topic summary".split(),
    "date": "date day on_date when calendar_day datum due weekday".split(),
    "time": "time at hour start moment clock begin starts_at".split(),
    "person": "person who contact_name with attendee individual whom full_name name".split(),
    "phone": "phone number tel mobile telephone line cell phone_number".split(),
    "email": "email mail address inbox mailbox email_address".split(),
    "path": "path file filename location source resource item file_path".split(),
    "destination": "dest target to new_path destination into goal".split(),
    "text": "text content body message prose passage payload words".split(),
    "count": "count limit max n amount quantity cap top".split(),
    "place": "place where room city venue spot site location".split(),
    "flag": "urgent important flag pinned priority starred vital".split(),
    "query": "query q term keyword needle phrase pattern search_text".split(),
}
