"""The older listing by page number: whole sandboxes, a total, and the newer listing's filters."""
import pytest

from resthelp import refused


@pytest.fixture(scope="module")
def seven(api):
    """Seven sandboxes, oldest first."""
    made = [api.create(name=f"p{i}", autoStopInterval=0, env={"N": str(i)},
                       labels={"half": str(i % 2)}) for i in range(7)]
    yield made
    for sb in made:
        api.delete(f"/sandbox/{sb['id']}")


def names(page):
    return [sb["name"] for sb in page["items"]]


def test_pages_are_numbered_and_whole(api, seven):
    first = api.get("/sandbox/paginated?limit=3")
    assert (first["total"], first["page"], first["totalPages"]) == (7, 1, 3)
    assert set(first) == {"items", "total", "page", "totalPages"}
    assert names(first) == ["p6", "p5", "p4"]
    assert names(api.get("/sandbox/paginated?limit=3&page=3")) == ["p0"]
    assert names(api.get("/sandbox/paginated?limit=3&page=4")) == []


def test_items_are_those_of_get(api, seven):
    item = api.get("/sandbox/paginated?limit=1&sort=name&order=asc")["items"][0]
    one = api.get(f"/sandbox/{seven[0]['id']}")
    item.pop("lastActivityAt"), one.pop("lastActivityAt")
    assert item == one and item["env"] == {"N": "0"}


def test_filters_count_as_well(api, seven):
    page = api.get('/sandbox/paginated?labels={"half":"1"}&sort=name&order=asc&limit=2')
    assert page["total"] == 3 and page["totalPages"] == 2 and names(page) == ["p1", "p3"]
    none = api.get("/sandbox/paginated?states=archived")
    assert none == {"items": [], "total": 0, "page": 1, "totalPages": 0}
    assert api.get("/sandbox/paginated?name=P2")["total"] == 1


@pytest.mark.parametrize("query,says", [
    ("page=0", "page:"), ("page=x", "page:"), ("page=1000001", "page:"), ("limit=201", "limit:"),
    ("sort=region", "sort:"), ("order=up", "order:"), ("states=happy", "states:")])
def test_bad_queries_are_refused(api, query, says):
    refused(api, 400, "GET", f"/sandbox/paginated?{query}", says=says)
