package owner

import (
	"fmt"
	"strings"
)

// Rescue returns a shell command that copies the content of a volume into a new
// directory of the same name. The command makes a container of the given image,
// which may be any image because nothing runs in the container. host is the
// engine's address; if it is empty, docker uses its default.
func Rescue(host, image, volume string) string {
	docker := "docker"
	if host != "" {
		docker += " -H " + quoted(host)
	}
	name := quoted(volume)
	return fmt.Sprintf("mkdir %s && id=$(%s create --network none -v %s:/workspace:ro %s true) && %s cp $id:/workspace/. %s && %s rm $id",
		name, docker, name, quoted(image), docker, name, docker)
}

// quoted quotes a word for a shell.
func quoted(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
