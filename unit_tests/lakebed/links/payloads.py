"""Addresses that a hostile dataset could hold: paths that lead out of its folder, hosts that are not on the internet."""

# A table is easier to read, and to add to, with many entries in a line.
# fmt: off
# ruff: noqa: E501, RUF001

TRAVERSALS = [
    "../secret", "./../secret", "sub/../../secret", "sub/./../../secret", ".//..//secret",
    "../ds/../secret", "../ds-evil/secret", "sub/up/secret", "to_folder/../secret", "to_top/{top}/secret",
    "ok.txt/../../secret", "to_file", "to_relative", "to_chain", "to_folder/secret", "sub/up/ds/to_file",
    "to_process/{top}/secret",
    "../../../../../../../../../../../../../../../../../../../../../../../../etc/hostname", "to_file/",
    "to_file/.", "../secret ", "..\\secret", "sub\\..\\..\\secret", "%2e%2e/secret", "..%2fsecret",
    "..%c0%afsecret", "․․/secret", "．．/secret", "..;/secret", "....//secret", "pipe", "", ".", "sub",
    "sub/up", "to_top", "../ds", "../secret\x00", "ok.txt\x00/../../secret", "{top}/secret",
    "/{top}/secret", "//{top}/secret", "{top}/./secret", "{ds}/../secret", "{ds}-evil/secret",
    "{top}/outside/../secret", "/proc/self/root{top}/secret", "/proc/self/cwd/../secret",
    "/proc/self/environ", "/proc/self/cmdline", "/proc/self/maps", "/proc/self/fd/0", "/proc/1/environ",
    "/proc/thread-self/environ", "/dev/stdin", "/dev/fd/0", "/dev/zero", "/dev/tty", "/dev/mem",
    "/etc/passwd", "/etc/shadow", "/sys/kernel", "{ds}/to_file", "{ds}/sub/up/secret",
    "{ds}/to_top/etc/passwd", "{ds}/pipe", "~/secret", "~root/.profile", "file://{top}/secret",
    "file://localhost{top}/secret", "FILE://{top}/secret", "file:///{top}/secret", "file://{ds}/../secret",
    "file://{ds}/%2e%2e/secret", "file://{ds}/%2E%2E%2Fsecret", "file://{quoted}secret",
    "file://{ds}/sub/%2e%2e/%2e%2e/secret", "file://{ds}/to_file", "file://{ds}/to%5ffile",
    "file:{top}/secret", "file:/{top}/secret", "file://127.0.0.1{top}/secret", "file://host{top}/secret",
    "file://{top}/secret%00", "file://{ds}%00/../secret", "file:../secret", "file://../secret",
    "file://~/secret", "fILe://{ds}/to_relative", "file:///proc/self/environ", "file:///dev/zero",
    "file:///etc/passwd", "file://{top}/secret?x", "local://{top}/secret",
]
"""Ways out of a folder, and to what is no file; with {top}, {ds} and {quoted} in them."""

LOOPBACK = [
    "127.0.0.1", "127.1", "127.0.1", "127.0.0.1.", "127.255.255.254", "2130706433", "0x7f000001", "0x7f.1",
    "0x7f.0x0.0x0.0x1", "0177.0.0.1", "0177.0.01", "017700000001", "127.000.000.001", "00000127.0.0.1", "0",
    "0.0.0.0", "0x0", "[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
    "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2002:7f00:1::1]",
    "[::1%25lo]", "[::%31]", "[2001:0:53aa:64c:0:fbff:80ff:fffe]", "localhost", "LOCALHOST", "localhost.",
    "LocalHost..", "[v1.127.0.0.1]",
]
"""Spellings of this machine."""

PRIVATE = [
    "10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.254", "192.168.0.1", "192.168.255.255",
    "100.64.0.1", "169.254.169.254", "169.254.170.2", "2852039166", "0xa9fea9fe", "0xA9.0xFE.0xA9.0xFE",
    "0251.0376.0251.0376", "169.254.43518", "169.16689662", "100.100.100.200", "192.0.0.192",
    "168.63.129.16", "198.18.0.1", "198.51.100.7", "192.0.2.1", "203.0.113.9", "192.88.99.1", "224.0.0.1",
    "239.255.255.250", "240.0.0.1", "255.255.255.255", "[fe80::1]", "[fe80::1%25eth0]", "[fc00::1]",
    "[fd00:ec2::254]", "[fec0::1]", "[ff02::1]", "[2001:db8::1]", "[::ffff:169.254.169.254]",
    "[::ffff:a9fe:a9fe]", "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::1]", "[100::1]", "[::ffff:10.0.0.1]",
    "[::ffff:0:10.0.0.1]", "[64:ff9b::10.0.0.1]", "[3fff::1]", "[5f00::1]", "[2001:2::1]", "[4000::1]",
]
"""Private, reserved and multicast addresses, metadata services of clouds."""

ODD = [
    "１２７.0.0.1", "127。0。0。1", "127．0．0．1", "127｡0｡0｡1", "①②⑦.⓪.⓪.①", "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ", "loc\xadalhost",
    "𝟏𝟐𝟕.𝟎.𝟎.𝟏", "good.example@127.0.0.1", "good.example:80@127.0.0.1", "good.example%2f@127.0.0.1",
    "a:b@127.0.0.1", "@127.0.0.1", "127.0.0.1#@good.example", "127.0.0.1?@good.example",
    "127.0.0.1\\@good.example", "good.example\\@127.0.0.1", "%31%32%37.0.0.1", "127.0.0.1%00.good.example",
    "127%2e0.0.1", "127.0.0.1%2f@good.example", "127.0.0.1,good.example", "127.0.\t0.1",
    "127.0.0.1\r\nHost: good.example", "127.0.0.1\n", "127.0.0.1 ", " 127.0.0.1", "127.0.0.1;good.example",
    "127.0.0.1&@good.example", "[127.0.0.1]", "[::1", "::1", "[::1]]", "good.example:80:80", "..", ".", "-",
    "a" * 300, "127.0.0.1:80\\@good.example:80", "1.1.1.1 &@127.0.0.1# @3.3.3.3",
    "127.1.1.1:80#\\@127.2.2.2:80", "[0:0:0::0:1]", "0x7f000001.", "0b1111111.1",
]
"""Hosts that parsers disagree on."""

PUBLIC = "93.184.216.34"

PORTS = [
    f"{host}:{port}"
    for host in ("good.example", PUBLIC)
    for port in (0, 1, 21, 22, 23, 25, 53, 110, 143, 389, 445, 993)
]
"""Public hosts at ports that are not the web's."""

REDIRECTS = [
    "http://127.0.0.1:{port}/secret", "http://localhost:{port}/secret", "//127.0.0.1:{port}/secret",
    "http://2130706433:{port}/secret", "http://[::1]:{port}/secret",
    "http://[::ffff:127.0.0.1]:{port}/secret", "http://other.example:{port}/secret",
    "http://known.example@127.0.0.1:{port}/secret", "HTTP://127.0.0.1:{port}/secret",
    "http://169.254.169.254/latest", "file:///etc/hostname", "ftp://known.example/x",
    "gopher://127.0.0.1:{port}/_x", "http://known.example:22/x",
    "http://127.0.0.1:{port}\\@known.example/secret", "//localhost:{port}/secret",
    "\thttp://127.0.0.1:{port}/secret", "http://known.example:x/", "http://./",
    "https://127.0.0.1:{port}/secret", "http://[::1/secret", "s3://bucket/secret",
]
"""Where an allowed server must not send anybody; with {port} in them."""

INSIDE = [
    "127.0.0.1", "::1", "10.1.2.3", "169.254.169.254", "fd00::1", "0.0.0.0", "::ffff:10.0.0.1",
    "100.64.9.9", "64:ff9b::a00:1", "fe80::1%1",
]
"""What a name server of somebody else may answer."""

SCHEMES = [
    "ftp://good.example/x", "gopher://127.0.0.1:6379/_x", "dict://127.0.0.1/x", "ldap://127.0.0.1/x",
    "data:/x", "jar:/http://127.0.0.1!/x", "unix:///run/x", "sftp://127.0.0.1/x", "http+unix://x/y",
    "git://127.0.0.1/x", "smb://127.0.0.1/x", "phar:///x", "netdoc:///etc/passwd", "php://filter/x",
    "tftp://127.0.0.1/x",
]
"""Addresses that are no files, web pages or objects."""

OBJECTS = [
    ("s3://bucket/a/b.jpg", ("s3", "bucket", "a/b.jpg")),
    ("S3://My.Bucket-1/a b+c%20.jpg", ("s3", "My.Bucket-1", "a b+c%20.jpg")),
    ("gcs://bucket_1/x", ("gs", "bucket_1", "x")), ("azure://data/x/", ("az", "data", "x/")),
    ("az://$web/x?y#z", ("az", "$web", "x?y#z")),
]
"""Links into buckets, and what they mean."""

NO_OBJECTS = [
    "s3://127.0.0.1/x", "s3://evil.example:80/x", "s3://user@bucket/x", "s3://user:pw@bucket/x",
    "s3://bucket", "s3:///x", "s3://bucket/", "s3://../x", "s3://a..b/x", "s3://bucket/../other/x",
    "s3://bucket/a/../../x", "s3://bucket/./x", "s3://bucket//x", "s3://bucket/a//x", "s3://buc%2fket/x",
    "s3://bucket\\evil/x", "s3://[::1]/x", "s3://bücket/x", "s3://bucket?x/y", "s3://bucket#/y",
    "gs://evil.example:443/x", "az://evil.example/x", "az://account.blob/x", "gs://UPPER/x", "s3:/bucket/x",
    "s3://b\tucket/x", "s3://bucket/a\r\nb", "s3://bucket/a\x00b",
]
"""Links into buckets that hold a host, or lead out of the bucket."""
