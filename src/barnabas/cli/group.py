"""`barnabas group`: list, describe, reset and delete consumer groups."""

from typing import Annotated, Any, Final

import typer

from barnabas.cli.client import DEFAULT_BOOTSTRAP, Bootstrap, admin, errors_as_sentences
from barnabas.cli.output import AsJson, print_json, print_table
from barnabas.model.errors import BarnabasError

app = typer.Typer(help="List, describe, reset and delete consumer groups.", no_args_is_help=True)

LIST_EXAMPLES: Final = """\b
Examples:
  barnabas group list
  barnabas group list --state empty --lag
  barnabas group list --type consumer --json
"""
DESCRIBE_EXAMPLES: Final = """\b
Examples:
  barnabas group describe billing
  barnabas group describe billing shipping --json
  barnabas group describe --all
"""
RESET_EXAMPLES: Final = """\b
Examples:
  barnabas group reset billing --all-topics --to-earliest             shows what would happen
  barnabas group reset billing --all-topics --to-earliest --execute   does it
  barnabas group reset billing --topic orders --to-time '2h ago'
  barnabas group reset billing --topic orders:0,2 --to-offset 1000
  barnabas group reset billing --topic orders --shift-by -10
"""
DELETE_EXAMPLES: Final = """\b
Examples:
  barnabas group delete billing
  barnabas group delete billing shipping --yes
  barnabas group delete billing --topic orders      only what it committed for that topic
"""

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.command("list", epilog=LIST_EXAMPLES)
def list_(
    state: Annotated[
        list[str] | None,
        typer.Option(help="Only groups in this state, such as stable or empty; may be repeated."),
    ] = None,
    type_: Annotated[
        list[str] | None,
        typer.Option("--type", help="Only classic or only consumer groups; may be repeated."),
    ] = None,
    lag: Annotated[
        bool, typer.Option("--lag", help="Add how many records each is behind (asks more).")
    ] = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """List groups."""
    from barnabas.cli.group_facts import shown
    from barnabas.cli.group_show import Wanted, list_groups

    wanted = Wanted(state or [], type_ or [])
    with errors_as_sentences():
        found = list_groups(admin(bootstrap), bootstrap, wanted, lag=lag)
    if as_json:
        print_json(found)
        return
    columns = ["type", "state", "protocol", "members", *(["lag"] if lag else [])]
    print_table(
        ["group", *columns],
        [[shown(group["group"]), *(group[column] for column in columns)] for group in found],
    )


@app.command("describe", epilog=DESCRIBE_EXAMPLES)
def describe(
    groups: Annotated[
        list[str] | None, typer.Argument(metavar="GROUP", help="One or more groups.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every group.")] = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Show members, offsets and lag of groups, and why they were last rebalanced.

    Lag is told in records and in seconds: how old the oldest record is that was not read.
    """
    if every == bool(groups):
        raise typer.BadParameter("name groups, or say --all.")
    from barnabas.cli.group_show import describe_named, show

    with errors_as_sentences():
        found = describe_named(admin(bootstrap), bootstrap, None if every else groups)
    if as_json:
        print_json([each.as_object() for each in found])
        return
    for number, each in enumerate(found):
        if number:
            print()
        show(each)


@app.command("reset", epilog=RESET_EXAMPLES)
def reset(
    group: Annotated[str, typer.Argument(metavar="GROUP")],
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC[:P,P]", help="A topic, or some of its partitions."),
    ] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="Every topic the group has committed for.")
    ] = False,
    to_offset: Annotated[int | None, typer.Option(min=0, help="To this offset.")] = None,
    to_time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="To the first record that is not older: ISO 8601, or '2h ago' (ms, s, m, h, d).",
        ),
    ] = None,
    to_earliest: Annotated[
        bool, typer.Option("--to-earliest", help="To the first record there is.")
    ] = False,
    to_latest: Annotated[
        bool, typer.Option("--to-latest", help="To the end: only what comes from now on.")
    ] = False,
    shift_by: Annotated[
        int | None, typer.Option(metavar="N", help="So many on, or back with -N.")
    ] = None,
    to_current: Annotated[
        bool, typer.Option("--to-current", help="Where it is: commit the same offsets again.")
    ] = False,
    execute: Annotated[
        bool, typer.Option("--execute", help="Do it.  [default: only show what would happen]")
    ] = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Change where a group goes on reading. Shows what would happen; --execute does it.

    The group must have no members meanwhile: stop its consumers first.
    """
    from barnabas.cli.group_reset import Target, reset_group

    if all_topics == bool(topic):
        raise typer.BadParameter("say which topics: --topic (may be repeated) or --all-topics.")
    targets = [
        Target.of("offset", to_offset),
        Target.of("time", to_time),
        Target.of("earliest", to_earliest or None),
        Target.of("latest", to_latest or None),
        Target.of("shift", shift_by),
        Target.of("current", to_current or None),
    ]
    chosen = [target for target in targets if target is not None]
    if len(chosen) != 1:
        raise typer.BadParameter(
            "say where to, with one of --to-offset, --to-time, --to-earliest, --to-latest, "
            "--shift-by and --to-current."
        )
    with errors_as_sentences():
        reset_group(admin(bootstrap), group, topic, chosen[0], execute=execute, as_json=as_json)


@app.command("delete", epilog=DELETE_EXAMPLES)
def delete(
    groups: Annotated[list[str], typer.Argument(metavar="GROUP", help="One or more groups.")],
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC", help="Forget only what was committed for this topic."),
    ] = None,
    yes: Yes = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Delete groups with everything they committed, or what they committed for a topic.

    A group must have no members meanwhile; for one topic it is enough that none reads it.
    """
    from barnabas.cli.group_delete import check_known, delete_groups, delete_offsets

    client: Any = admin(bootstrap)
    with errors_as_sentences():
        check_known(client, groups)
    if not yes:
        names = ", ".join(groups)
        what = f"what {names} committed for {', '.join(topic)}" if topic else names
        typer.confirm(f"Delete {what}?", abort=True, err=as_json)
    with errors_as_sentences():
        done = delete_offsets(client, groups, topic) if topic else delete_groups(client, groups)
    if as_json:
        print_json([each.as_object() for each in done])
    else:
        for each in done:
            if each.problem is None:
                print(each.sentence)
    problems = [each.problem for each in done if each.problem is not None]
    if problems:
        raise BarnabasError(" ".join(problems))
