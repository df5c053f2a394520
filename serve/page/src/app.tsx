document.getElementById("app")!.textContent = "Pumex";
