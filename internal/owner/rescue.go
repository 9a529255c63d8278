package owner

import (
	"fmt"
	"strings"
)

// Rescue returns the shell command that copies what is in a volume into a new
// directory of the same name. It takes a container of any image, in which nothing
// runs. Host is the engine's address, empty for the one that docker finds by itself.
func Rescue(host, image, volume string) string {
	docker := "docker"
	if host != "" {
		docker += " -H " + quoted(host)
	}
	name := quoted(volume)
	return fmt.Sprintf("mkdir %s && id=$(%s create --network none -v %s:/workspace:ro %s true) && %s cp $id:/workspace/. %s && %s rm $id",
		name, docker, name, quoted(image), docker, name, docker)
}

// quoted returns a word of a shell's command.
func quoted(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
