"""Charts: values stand where they belong, and words of others stay words."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from crag_dspy.charts import Frame, colour, dash, svg, text


def test_values_stand_between_the_edges_of_the_frame() -> None:
    frame = Frame(10, 20, 100, 50, xs=(0, 4), ys=(0, 0.5))
    assert [frame.across(x) for x in (0, 1, 4)] == [10, 35, 110]
    assert [frame.up(y) for y in (0, 0.5)] == [frame.bottom, 20] == [70, 20]
    assert Frame(10, 20, 100, 50, xs=(2, 2)).across(2) == 60


def test_a_line_goes_through_its_points_and_a_band_around_them() -> None:
    frame = Frame(0, 0, 10, 10)
    assert 'points="0.0,10.0 10.0,0.0"' in frame.line((0, 1), (0, 1), "#000")
    assert 'points="0.0,10.0 10.0,10.0 10.0,0.0 0.0,0.0"' in frame.band((0, 1), (0, 0), (1, 1), "#000")
    assert 'y="5.0" width="9.0" height="5.0"' in frame.bar(0, 1, 0.5, "#000", 1)


def test_series_are_told_apart_by_colour_then_by_dash() -> None:
    assert len({(colour(number), dash(number)) for number in range(28)}) == 28


@pytest.mark.parametrize("alone", [True, False])
def test_names_of_others_cannot_write_markup(alone: bool) -> None:
    hostile = '</text><script>"&'
    told = Frame(0, 0, 1, 1).dot(0, 0, "#000", told=hostile)
    drawn = ElementTree.fromstring(svg(10, 10, hostile, [text(0, 0, hostile), told], alone=alone))
    assert drawn.attrib["aria-label"] == hostile
    assert [each.text for each in drawn.iter() if (each.text or "").strip()] == [hostile, hostile]
    assert ("{http://www.w3.org/2000/svg}" in drawn.tag) is alone
