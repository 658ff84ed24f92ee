"""Tasks of Inspect: one turn, tools in the local sandbox, several scorers, a grader, a user, and tasks that fail."""

from inspect_ai import Task, task
from inspect_ai.agent import react
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageUser, get_model
from inspect_ai.scorer import Score, accuracy, choice, match, mean, model_graded_qa, scorer
from inspect_ai.solver import generate, multiple_choice, solver, system_message, use_tools
from inspect_ai.tool import tool
from inspect_ai.util import sandbox

CAPITALS = {"Norway": "Oslo", "France": "Paris", "Peru": "Lima"}


def ask_capitals():
    return [
        Sample(id=land.lower(), input=f"What is the capital of {land}?", target=city)
        for land, city in CAPITALS.items()
    ]


@task
def capitals():
    return Task(
        dataset=ask_capitals(),
        solver=[system_message("Answer with one word."), generate()],
        scorer=match(location="any"),
    )


@task
def choices():
    samples = [
        Sample(input=f"Which one is even ({number})?", choices=["three", "four", "five"], target="B")
        for number in range(2)
    ]
    return Task(dataset=MemoryDataset(samples), solver=multiple_choice(), scorer=choice())


@tool
def run():
    async def execute(command: str) -> str:
        """Run a command.

        Args:
            command: A line of shell.
        """
        done = await sandbox().exec(["sh", "-c", command])
        return done.stdout + done.stderr

    return execute


@scorer(metrics=[accuracy()])
def wrote_answer():
    async def score(state, target):
        text = await sandbox().read_file("answer.txt")
        return Score(value="C" if text.strip() == target.text else "I", answer=text)

    return score


@task
def files(message_limit: int | None = None):
    samples = [
        Sample(
            input=f"Write the sum of number.txt and {add} to answer.txt.",
            target=str(20 + add),
            files={"number.txt": "20"},
        )
        for add in (3, 4)
    ]
    return Task(
        dataset=samples,
        solver=[use_tools(run()), generate()],
        scorer=wrote_answer(),
        sandbox="local",
        message_limit=message_limit,
    )


@task
def agent():
    return Task(
        dataset=[Sample(input="Which folder is this? Submit its name.", target="here")],
        solver=react(tools=[run()]),
        scorer=match(location="any"),
        sandbox="local",
    )


@scorer(metrics={"length": [mean()], "polite": [mean()]})
def manners():
    async def score(state, target):
        text = state.output.completion
        return Score(value={"length": len(text), "polite": "C" if "please" in text.lower() else "I"})

    return score


@task
def several():
    return Task(dataset=ask_capitals(), solver=generate(), scorer=[match(location="any"), manners()])


@task
def graded():
    return Task(dataset=ask_capitals(), solver=generate(), scorer=model_graded_qa())


@task
def graded_by_itself():
    return Task(dataset=ask_capitals()[:1], solver=generate(), scorer=model_graded_qa(model_role=None))


@solver
def talk():
    async def solve(state, generate):
        user = get_model(role="user")
        for _ in range(2):
            state = await generate(state)
            said = await user.generate(f"You are the user. The agent said: {state.output.completion}")
            state.messages.append(ChatMessageUser(content=said.completion))
        return await generate(state)

    return solve


@task
def conversation():
    return Task(dataset=ask_capitals()[:1], solver=talk(), scorer=match(location="any"))


@solver
def ask_a_stranger():
    async def solve(state, generate):
        role = "stran" + "ger"
        await get_model(role=role).generate("Hello")
        return await generate(state)

    return solve


@task
def stranger():
    return Task(dataset=ask_capitals()[:1], solver=ask_a_stranger(), scorer=match(location="any"))


@solver
def fail():
    async def solve(state, generate):
        await generate(state)
        raise RuntimeError("the solver is broken")

    return solve


@task
def broken_solver():
    return Task(dataset=ask_capitals()[:1], solver=fail(), scorer=match())


@scorer(metrics=[accuracy()])
def says(value):
    async def score(state, target):
        if value is None:
            raise RuntimeError("the scorer is broken")
        return Score(value=float("nan") if value == "nan" else value)

    return score


@task
def scored(value: str | float | None = None):
    return Task(dataset=ask_capitals()[:1], solver=generate(), scorer=says(value))


@solver
def remember():
    seen = []

    async def solve(state, generate):
        seen.append(state.sample_id)
        state.messages.append(ChatMessageUser(content=f"You have seen {len(seen)}."))
        return await generate(state, cache=True)

    return solve


@task
def remembering():
    return Task(dataset=ask_capitals(), solver=remember(), scorer=match(location="any"))


@task
def container():
    return Task(dataset=ask_capitals(), solver=generate(), scorer=match(), sandbox="docker")


@task
def unscored():
    return Task(dataset=ask_capitals(), solver=generate())
