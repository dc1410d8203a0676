#!/bin/sh
# Run `make pythons` in a Debian of its own, which has the newest Pythons: tests/debian.sh FOLDER python3.14 python3.15
#
# Needs root, debootstrap and unshare. The folder is made once, from the mirror that apt uses here; nothing outside of it
# and of this repository is changed, and the mounts end with this script.
#
# It is a way to MySQL as well: install mysql-server-core in the folder by chroot, and let PYWHEEL_MYSQLD name a script,
# readable by everybody, with these lines. `make servers ARGS="-k 'mysql or mariadb'"` then runs MariaDB's tests on it.
#   cd /opt/sid && exec lib64/ld-linux-x86-64.so.2 --library-path usr/lib/x86_64-linux-gnu usr/sbin/mysqld "$@" \
#       --lc-messages-dir=/opt/sid/usr/share/mysql
set -eu
folder=$1
shift
here=$(cd "$(dirname "$0")/.." && pwd)

if [ ! -e "$folder/.complete" ]; then
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'ORIGIN: Debian' | head -n 1)
    packages=ca-certificates,gcc,libc6-dev,make,git
    for python; do packages=$packages,$python,$python-dev,$python-venv,lib$python-testsuite; done
    debootstrap --variant=minbase --include="$packages" "${SUITE:-sid}" "$folder" "$mirror"
    touch "$folder/.complete"
fi

# The way to the packages of Python is the one from here.
for file in /etc/pip.conf /etc/resolv.conf /etc/hosts; do
    if [ -e "$file" ]; then cp "$file" "$folder$file"; fi
done
mkdir -p "$folder$here"
export folder here
exec unshare --mount sh -c '
    set -eu
    for path in /proc /dev /etc/ssl "$here"; do mount --rbind "$path" "$folder$path"; done
    exec chroot "$folder" env PATH=/usr/bin:/bin make -C "$here" PYTHON="$1" PYTHONS="$*" pythons' sh "$@"
