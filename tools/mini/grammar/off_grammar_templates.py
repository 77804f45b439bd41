"""Templates of what lily-mini has not learnt: questions about the world, writing, code.

The slots are filled by off_grammar.py; words.py splits the templates as it splits words.
"""

from .words import items

KNOWLEDGE = items(
    """
What is the capital of {city}?|Who won the world cup in {year}?|Why is the {noun} {adjective}?
How does a {noun} work?|Explain {noun} {occasion} to me.|What is the meaning of life?|Tell me about {city}.
Who was {name}?|When was {name} born?|How far is {city} from {city}?|What do you think about {noun}?
Is {name} rich?|How many {noun}s are there in {city}?|What is quantum physics?|How do I {errand}?
Where can I {errand}?|What is the best {noun} in {city}?|Why do people {errand}?
Can you explain why the {noun} is {adjective}?|What does {noun} mean?|Which {noun} should I buy?
Who invented the {noun}?|How old is the {noun}?|What happened in {year}?|Give me advice about my {occasion}.
Do you know {name}?|Who is the president?|What is the difference between a {noun} and a {noun}?
How much does a {noun} cost?|Is a {noun} {adjective}?|What should I cook?|Who is the king of {city}?
What is the population of {city}?|How tall is the {noun} of {city}?|Should I trust {name}?
I have a problem with my {noun}.|My {noun} is {adjective}.|I want to travel to {city}.
The {noun} is {adjective} and {adjective}.|What is the square root of {year}?|Solve x + {year} = {year}.
What is love?|Is there a god?|How can I become rich?|What is AI?|How do I get from {city} to {city}?
Recommend a book about {noun}.|What are the news of today?|Who is the author of {noun}?
Are there {noun}s in {city}?|When does the {noun} open?|I feel {adjective} today because of my {noun}.
Let's talk about {noun}s.|Describe the {noun}.|Which is better, {noun} or {noun}?
Tell me something interesting.|Do {noun}s sleep?|Can a {noun} fly?|Tell me everything about the {noun}.
I do not like {noun}s.|Yesterday I saw a {adjective} {noun} in {city}.|What can I eat in {city}?
Give me five facts about {noun}s.|How was your {occasion}?|I lost my {noun}.|What is your opinion on {city}?
"""
)

# In training only: what a list might be asked, where there is none.
COUNTING = items(
    """
How many {noun}s do you have?|How many {noun}s can you see?|How many people live near {name}?|Count the {noun}s.
How many days has {occasion}?|How many of them are {adjective}?|How many {noun}s does {name} need?|How many?
How many {adjective} {noun}s did {name} buy in {year}?|How many times did you {errand}?|Which {noun} is the first?
"""
)

WRITING = items(
    """
Write a poem about a {noun}.|Write a story about {name}.|Write an essay on {noun}s.
Translate "{noun}" into French.|Write a letter to {name}.|Make a plan for my {occasion}.
Summarize the book about {name}.|Tell me a story.|Sing a song about {city}.|Write a haiku about the {noun}.
Compose an email to {name} about the {occasion}.|Tell me a story about a {adjective} {noun}.
Write a speech for the {occasion}.|Draw a {adjective} {noun}.
Translate this into German: the {noun} is {adjective}.|Write a song.|Write me a short text about {city}.
Invent a recipe with {noun}.|Finish this sentence: the {noun} was|Write a tweet about {noun}s.
Make up a name for my {noun}.|Paint me a picture of {city}.|Improve this text: the {noun} is {adjective}.
Rhyme with {noun}.|Write a long poem|Continue the story: {name} saw a {noun}.|Draft a contract with {name}.
Create a logo for my {noun}.|Write a review of the {noun}.|Please write something about {city}.
Write 500 words about {noun}s.
"""
)

SNIPPETS = items(
    r"""
def {a}({b}):\n    return {b} + {n}|for (int {a} = 0; {a} < {n}; {a}++) {{ {b}(); }}
SELECT {a} FROM {b} WHERE {c} = {n};|#include <{a}>\nint main() {{ return {n}; }}|console.log({a});
<div class="{a}">{b}</div>|git commit -m "{a} {b}"|{a} = [{n}, {n}, {n}]|import {a} as {b}\n{b}.{c}({n})
sudo apt install {a}|{{"{a}": {n}, "{b}": "{c}"}}|let {a}: {b} = new {c}({n});|rm -rf /{a}/{b}
https://{a}.com/{b}?{c}={n}|Write a python function that sorts {a}.|fn {a}() -> {b} {{ {c} }}
Fix this bug: {a} is not defined|Traceback (most recent call last): {a}Error: {b}|curl http://{a}:{n}/{b}
How do I sort a list in Python?|x{n} := {a}.{b}()|ls -la {a}|Write a program that prints {a}.
What does {a}() do?|{a}->{b}({c}, {n});|Error {n} in {a}.cpp line {n}|<{a}><{b}>{n}</{b}></{a}>
export {a}={n}|@{a}.{b}\nclass {c}: pass|{a}.map({b} => {b} * {n})|Debug my code please.
"""
)
