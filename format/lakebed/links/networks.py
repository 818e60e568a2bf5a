"""Hosts and networks: public addresses, the spelling of hosts, and the hosts that a user allows.

An address is public unless the registries of special-purpose addresses (RFC 6890 and its successors) list it. An
address that stands for another address (IPv4-mapped, NAT64) is treated as that address; obsolete tunnels (6to4, Teredo)
are never public, whatever they contain.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

from lakebed.errors import InvalidInputError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# Networks that `ipaddress` counts as global, but that are special: Azure's service for its machines, protocol
# assignments, 6to4 relays, multicast.
_SPECIAL_4 = tuple(map(IPv4Network, ("168.63.129.16/32", "192.0.0.0/24", "192.88.99.0/24", "224.0.0.0/4")))
_GLOBAL_6 = IPv6Network("2000::/3")
# In this order: protocol assignments (with Teredo), documentation, 6to4, documentation.
_SPECIAL_6 = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))
_NAT64 = IPv6Network("64:ff9b::/96")

_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


def meant(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address stands for, or the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.scope_id is None and address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def is_public(address: Address) -> bool:
    """Tell whether an address is reachable from all of the internet."""
    real = meant(address)
    if isinstance(real, IPv4Address):
        return real.is_global and not any(real in network for network in _SPECIAL_4)
    return real.scope_id is None and real in _GLOBAL_6 and not any(real in network for network in _SPECIAL_6)


def plain_host(host: str) -> str:
    """Return the canonical spelling of a host name or address: ASCII, lower case, without a dot at the end.

    Raises
    ------
    ValueError
        If the text is neither a name nor an address, or an IPv4 address is not written as four decimal numbers.
    """
    if ":" in host:
        return str(IPv6Address(host))
    try:
        text = host.encode("idna").decode("ascii").lower() if not host.isascii() else host.lower()
    except UnicodeError as error:
        raise ValueError(f"{host!r} is not a host name") from error
    text = text.removesuffix(".")
    labels = text.split(".")
    if len(text) > 253 or not all(len(label) < 64 and _LABEL.fullmatch(label) for label in labels):
        raise ValueError(f"{host!r} is not a host name")
    if _NUMBER.fullmatch(labels[-1]):
        return str(IPv4Address(text))
    return text


def literal(host: str) -> Address | None:
    """Return a host as an address; None if it is a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Hosts:
    """Hosts that a user allows, by name, pattern or network, each with an optional port.

    Parameters
    ----------
    names
        ``data.example.org``, ``*.example.org``, ``*``.
    networks
        Single addresses are networks of one.
    """

    names: tuple[tuple[str, int | None], ...]
    networks: tuple[tuple[Network, int | None], ...]

    def names_host(self, host: str, port: int) -> bool:
        """Tell whether the name of the host is allowed, whatever its addresses."""
        return any(
            (name in ("*", host) or (name.startswith("*.") and host.endswith(name[1:])))
            and only in (None, port)
            for name, only in self.names
        )

    def has_address(self, address: Address, port: int) -> bool:
        """Tell whether the address is in an allowed network."""
        real = meant(address)
        return any(
            only in (None, port)
            and any(a.version == network.version and a in network for a in (real, address))
            for network, only in self.networks
        )


@lru_cache(maxsize=32)
def hosts(entries: tuple[str, ...]) -> Hosts:
    """Parse a list of allowed hosts: names, ``*.name``, addresses and networks, each with an optional ``:port``.

    Raises
    ------
    InvalidInputError
        If an entry is none of these.
    """
    names: list[tuple[str, int | None]] = []
    networks: list[tuple[Network, int | None]] = []
    for entry in entries:
        text, port = _with_port(entry.strip())
        try:
            networks.append((ip_network(text, strict=False), port))
            continue
        except ValueError:
            pass
        star, rest = ("*.", text[2:]) if text.startswith("*.") else ("", text)
        try:
            names.append((text if text == "*" else star + plain_host(rest), port))
        except ValueError:
            raise InvalidInputError(
                f"{entry!r} is not a host for links: give a name, *.name, an address or a network such as "
                "10.1.0.0/16, with :port at its end to allow only that port"
            ) from None
    return Hosts(tuple(names), tuple(networks))


def _with_port(text: str) -> tuple[str, int | None]:
    """Split ``host:port`` and ``[v6]:port``; a bare IPv6 address has no port."""
    if text.startswith("["):
        inside, _, rest = text[1:].partition("]")
        return inside, int(rest[1:]) if rest[:1] == ":" and rest[1:].isdecimal() else None
    host, colon, port = text.rpartition(":")
    return (host, int(port)) if colon and ":" not in host and port.isdecimal() else (text, None)
