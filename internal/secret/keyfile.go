package secret

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// KeyEnv is the environment variable that holds the key, in base64, in place of a file; several
// with commas between, the current one last.
const KeyEnv = "SIMWARDEN_KEY"

// maxKeyFileBytes bounds what is read of a key file.
const maxKeyFileBytes = 64 << 10

const keyFileHead = `# simwarden's key-encryption keys, one a line; the last is the current one.
# Without them no carrier credential in the database can be opened: keep a copy elsewhere,
# and not beside the copies of the database.
`

// Load gives the keyring of the environment variable SIMWARDEN_KEY where that is set, else that of
// the file. A missing file is fs.ErrNotExist. A file that others than its owner may read or write
// is an error that says what to do.
func Load(path string) (*Keyring, error) {
	if text := os.Getenv(KeyEnv); text != "" {
		ring, err := parseKeys(text)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", KeyEnv, err)
		}
		return ring, nil
	}
	ring, err := readKeyFile(path)
	if err != nil {
		return nil, fmt.Errorf("read key file: %w", err)
	}
	return ring, nil
}

// LoadOrCreate is Load, but makes the file with a new random key, mode 0600, when it is missing.
// Of several processes that start at once one makes it and all get the same key. Call it only
// where nothing has been sealed yet or the file exists: a new key opens nothing that was sealed
// with a lost one.
func LoadOrCreate(path string) (*Keyring, error) {
	ring, err := Load(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return ring, err
	}
	// The file appears under its name with everything in it, or not at all: link is as exclusive
	// as O_EXCL, and nobody reads half a key.
	temporary, err := writeTemporary(path, &Keyring{keys: []key{randomKey()}})
	if err != nil {
		return nil, fmt.Errorf("make key file: %w", err)
	}
	err = os.Link(temporary, path)
	_ = os.Remove(temporary)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make key file: %w", err)
	}
	if err := syncDirectory(path); err != nil {
		return nil, fmt.Errorf("make key file: %w", err)
	}
	return Load(path)
}

// Rotate adds a new random key to the file as the current one and returns the new keyring; the old
// keys stay, to open what they sealed. Rewrap every sealed thing afterwards; only then may the old
// lines be taken out of the file. It refuses when the environment holds the key: rotate it there.
func Rotate(path string) (*Keyring, error) {
	if os.Getenv(KeyEnv) != "" {
		return nil, fmt.Errorf("rotate key: the key is in %s: add the new key there, after a comma", KeyEnv)
	}
	unlock, err := lockFile(path + ".lock")
	if err != nil {
		return nil, fmt.Errorf("rotate key: %w", err)
	}
	defer unlock()
	ring, err := readKeyFile(path)
	if err != nil {
		return nil, fmt.Errorf("rotate key: %w", err)
	}
	if len(ring.keys) >= maxKeys {
		return nil, fmt.Errorf("rotate key: %s holds %d keys: rewrap with the current one and remove the old", path, len(ring.keys))
	}
	ring.add(randomKey())
	temporary, err := writeTemporary(path, ring)
	if err != nil {
		return nil, fmt.Errorf("rotate key: %w", err)
	}
	if err := os.Rename(temporary, path); err != nil {
		_ = os.Remove(temporary)
		return nil, fmt.Errorf("rotate key: %w", err)
	}
	if err := syncDirectory(path); err != nil {
		return nil, fmt.Errorf("rotate key: %w", err)
	}
	return ring, nil
}

func readKeyFile(path string) (*Keyring, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("%s has mode %04o, so that others than its owner can get at the key: run: chmod 600 %s",
			path, mode, path)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxKeyFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxKeyFileBytes {
		return nil, fmt.Errorf("%s is larger than %d bytes: it is not a key file", path, maxKeyFileBytes)
	}
	ring, err := parseKeys(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return ring, nil
}

// writeTemporary writes the keys to a file of mode 0600 beside path, on disk when it returns.
func writeTemporary(path string, ring *Keyring) (name string, err error) {
	file, err := os.CreateTemp(filepath.Dir(path), ".key-*") // O_EXCL, 0600
	if err != nil {
		return "", err
	}
	text := keyFileHead
	for _, k := range ring.keys {
		text += k.text() + "\n"
	}
	_, err = file.WriteString(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		_ = os.Remove(file.Name())
		return "", err
	}
	return file.Name(), nil
}

// syncDirectory makes the name itself last: a key that seals and is then lost loses credentials.
func syncDirectory(path string) error {
	directory, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}

// lockFile waits until nobody else holds the lock: two rotations at once would lose a key.
func lockFile(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() { _ = file.Close() }, nil
}
