export async function* read() {}
export function stop() {}
