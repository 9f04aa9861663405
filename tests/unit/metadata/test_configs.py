from __future__ import annotations

from crabka.metadata.configs import ConfigResource, ConfigResourceType, ConfigsDelta, ConfigsImage
from crabka.metadata.records import ConfigRecord


def _config(name: str, value: str | None, resource: str = "a") -> ConfigRecord:
    return ConfigRecord(resource_type=ConfigResourceType.TOPIC, resource_name=resource, name=name, value=value)


def test_values_are_set_changed_and_removed() -> None:
    delta = ConfigsDelta(ConfigsImage())
    delta.set_config(_config("x", "1"))
    delta.set_config(_config("y", "2"))
    delta.set_config(_config("x", "3"))
    image = delta.apply()
    assert image.get(ConfigResourceType.TOPIC, "a") == {"x": "3", "y": "2"}
    assert image.get(ConfigResourceType.BROKER, "a") == {}
    assert list(image.to_records()) == [_config("x", "3"), _config("y", "2")]
    again = ConfigsDelta(image)
    again.set_config(_config("x", None))
    again.set_config(_config("y", None))
    assert again.apply().resources == {}
    assert image.get(ConfigResourceType.TOPIC, "a") == {"x": "3", "y": "2"}


def test_changed_resources_are_reported() -> None:
    delta = ConfigsDelta(ConfigsImage())
    delta.set_config(_config("x", "1", "b"))
    delta.remove_topic("unknown")
    assert delta.changed == {ConfigResource(ConfigResourceType.TOPIC, "b")}


def test_configs_of_a_removed_topic_go() -> None:
    delta = ConfigsDelta(ConfigsImage())
    delta.set_config(_config("x", "1"))
    delta.remove_topic("a")
    assert delta.apply().resources == {}


def test_an_untouched_image_is_handed_on() -> None:
    image = ConfigsImage()
    assert ConfigsDelta(image).apply() is image
