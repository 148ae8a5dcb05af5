"""What a sandbox finds in /dev belongs to its own root, as on any machine."""


def test_everything_in_dev_is_roots(api, box):
    out = api.exec(box, "stat -c '%n %u:%g' /dev /dev/*")["result"].splitlines()
    assert "/dev/mqueue 0:0" in out, out
    assert [line for line in out if not line.endswith((" 0:0", " 0:5"))] == []
