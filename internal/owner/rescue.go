package owner

import (
	"fmt"

	"github.com/x/pygent/internal/escape"
)

// Rescue returns a shell command that copies the content of a volume into a new
// directory of the same name. The command makes a container of the given image,
// which may be any image because nothing runs in the container. host is the
// engine's address; if it is empty, docker uses its default.
func Rescue(host, image, volume string) string {
	docker := "docker"
	if host != "" {
		docker += " -H " + escape.Word(host)
	}
	name := escape.Word(volume)
	return fmt.Sprintf("mkdir %s && id=$(%s create --network none -v %s:/workspace:ro %s true) && %s cp $id:/workspace/. %s && %s rm $id",
		name, docker, name, escape.Word(image), docker, name, docker)
}
