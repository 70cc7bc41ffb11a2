"""Every block of the IANA special-purpose address registries, and the public addresses right next to them."""

import ipaddress

import pytest

from app.outside.addresses import is_public

_BLOCKS = [
    "0.0.0.0/8", "0.0.0.0/32", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
    "192.0.0.0/24", "192.0.0.0/29", "192.0.0.8/32", "192.0.0.9/32", "192.0.0.10/32", "192.0.0.170/32",
    "192.0.0.171/32", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.88.99.2/32",
    "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4",
    "240.0.0.0/4", "255.255.255.255/32",
    "::1/128", "::/128", "::/96", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64", "2001::/23", "2001:1::1/128",
    "2001:1::2/128", "2001:1::3/128", "2001:2::/48", "2001:3::/32", "2001:4:112::/48", "2001:10::/28", "2001:20::/28",
    "2001:30::/28", "2001:db8::/32", "2620:4f:8000::/48", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10",
    "fec0::/10", "ff00::/8", "4000::/3", "::ffff:0:0:0/96",
]  # fmt: skip
_NEIGHBOURS = [
    "1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
    "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "191.255.255.255", "192.0.1.0", "192.0.3.0",
    "192.88.98.255", "192.88.100.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "198.51.99.255",
    "203.0.112.255", "203.0.114.0", "223.255.255.255", "8.8.8.8", "2001:200::", "2001:4860:4860::8888", "2000::1",
    "2001:db7:ffff::", "2001:db9::", "2003::1", "2606:4700::1111", "3ffe:ffff::", "3fff:1000::",
]  # fmt: skip
_PRIVATE_V4 = ["10.0.0.1", "127.0.0.1", "169.254.169.254", "192.168.1.1", "192.88.99.1", "192.0.0.1", "0.0.0.0"]


def _embeddings(v4: str) -> dict[str, str]:
    number = int(ipaddress.IPv4Address(v4))
    embedded = {
        "mapped": 0xFFFF << 32 | number,
        "6to4": 0x2002 << 112 | number << 80 | 1,
        "teredo client": 0x2001_0000 << 96 | 0x08080808 << 64 | (number ^ 0xFFFF_FFFF),
        "teredo server": 0x2001_0000 << 96 | number << 64 | (0x08080808 ^ 0xFFFF_FFFF),
        "nat64": 0x0064_FF9B << 96 | number,
    }
    return {way: str(ipaddress.IPv6Address(address)) for way, address in embedded.items()}


@pytest.mark.requirement("S11")
@pytest.mark.parametrize("block", _BLOCKS)
def test_no_address_of_a_special_block_is_public(block: str) -> None:
    network = ipaddress.ip_network(block)
    assert not is_public(str(network[0]))
    assert not is_public(str(network[-1]))
    assert not is_public(str(network[network.num_addresses // 2]))


@pytest.mark.requirement("S11")
@pytest.mark.parametrize("address", _NEIGHBOURS)
def test_the_address_next_to_a_special_block_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.requirement("S11")
@pytest.mark.parametrize("v4", _PRIVATE_V4)
def test_a_private_address_is_private_in_every_embedding(v4: str) -> None:
    assert {way: is_public(address) for way, address in _embeddings(v4).items()} == dict.fromkeys(
        _embeddings(v4), False
    )


@pytest.mark.requirement("S11")
def test_a_public_address_stays_public_in_every_embedding_that_the_internet_routes() -> None:
    assert all(is_public(address) for address in _embeddings("8.8.4.4").values())


@pytest.mark.requirement("S11")
@pytest.mark.parametrize("v4", ["8.8.8.8", "10.0.0.1"])
def test_a_local_nat64_prefix_is_never_public_whatever_it_embeds(v4: str) -> None:
    number = int(ipaddress.IPv4Address(v4))
    assert not is_public(str(ipaddress.IPv6Address(0x0064_FF9B_0001 << 80 | number)))


@pytest.mark.parametrize("text", ["", "localhost", "1.2.3", "1.2.3.4.5", "fe80::1%eth0", "2606:4700::1%1", "::g"])
def test_what_is_not_a_plain_address_is_not_public(text: str) -> None:
    assert not is_public(text)
