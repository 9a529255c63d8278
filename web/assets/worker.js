// The one worker of a browser for all its tabs.

import { Hub } from './hub.js'

const hub = new Hub()
addEventListener('connect', (e) => hub.add(e.ports[0]))
