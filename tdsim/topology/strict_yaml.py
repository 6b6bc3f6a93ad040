"""YAML as plain data, with a key given twice refused and every fault on one line."""

from __future__ import annotations

from pathlib import Path

import yaml

from tdsim.errors import TopologyError


def read_yaml(path: str | Path) -> object:
    """What the file holds. Raises `TopologyError` if it cannot be read or is not YAML."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        return yaml.load(text, _StrictLoader)
    except FileNotFoundError:
        reason = "no such file"
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        reason = "not UTF-8 text"
    except RecursionError:
        reason = "nested too deeply"
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date with month 13
        reason = f"not valid YAML: {_first_fault(error)}"
    raise TopologyError(reason, str(path), "a YAML machine")


class _StrictLoader(yaml.SafeLoader):
    """Safe loading that does not let a later key silently replace an earlier one."""

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[object, object]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    problem = f"key '{key.value}' is given twice"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def _first_fault(error: Exception) -> str:
    """The problem and its line, without the excerpt that PyYAML adds."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem and error.problem_mark:
        return f"{error.problem}, line {error.problem_mark.line + 1}"
    return str(error).splitlines()[0]
