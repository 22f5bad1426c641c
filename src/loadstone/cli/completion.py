"""`loadstone completion`: what a shell sources to complete loadstone's commands and flags."""

import argparse

SHELLS = ("bash", "zsh", "fish")

EPILOG = """\
examples:
  bash: echo 'eval "$(loadstone completion bash)"' >> ~/.bashrc
  zsh:  echo 'eval "$(loadstone completion zsh)"' >> ~/.zshrc
  fish: loadstone completion fish > ~/.config/fish/completions/loadstone.fish
"""


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "completion", help="print what a shell needs to complete flags", description="Prints shell completion code.", epilog=EPILOG
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell that will read it")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    import argcomplete.shell_integration

    print(argcomplete.shell_integration.shellcode(["loadstone"], shell=args.shell))
    return 0
